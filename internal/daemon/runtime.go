package daemon

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
)

// Headings of help.
const (
	forContainer = "The component's container, with --runtime docker:"
	forML        = "The ML program's container, with --ml-runtime docker:"
	forAgent     = "A SPIRE agent of the node's own:"
)

// inContainer reports whether this command is to run in a container; the option has been checked.
func inContainer(c *cli.Context) bool { return strings.EqualFold(c.String("runtime"), start.Docker) }

func runtimeFlag() cli.Flag {
	return stringFlag("runtime", "process: run on this host; docker: run in a container of the swarmd image (default process; scripts/run-… choose docker)")
}

// containerFlags are the options of `docker run` that every start command takes. They have no variables: an environment
// that is meant for containers must not keep a process from starting.
func containerFlags() []cli.Flag {
	text := func(name, usage string, aliases ...string) cli.Flag {
		return &cli.StringFlag{Name: name, Aliases: aliases, Usage: usage, Category: forContainer}
	}
	list := func(name, usage string, aliases ...string) cli.Flag {
		return &cli.StringSliceFlag{Name: name, Aliases: aliases, Usage: usage + " (repeatable)", Category: forContainer}
	}
	toggle := func(name, usage string, aliases ...string) cli.Flag {
		return &cli.BoolFlag{Name: name, Aliases: aliases, Usage: usage, Category: forContainer}
	}
	return []cli.Flag{
		text("hostname", "host name in the container (default: --name)"),
		text("network", "network that the container belongs to (default: the engine's bridge)", "net"),
		toggle("sudo", "run again under sudo (default: when the engine's socket refuses this user and sudo can be used)"),
		toggle("detach", "run the container in the background (default: unless standard input is a terminal)", "d"),
		toggle("interactive", "keep standard input open (default: if it is a terminal)", "i"),
		toggle("tty", "allocate a terminal (default: if standard input is one)", "t"),
		list("label", "K=V, a label of the container", "l"),
		list("publish", "HOST-PORT:CONTAINER-PORT, publish a port", "p"),
		text("user", "user[:group] in the container", "u"),
		list("volume", "HOST-PATH:CONTAINER-PATH[:ro], mount a path of this host", "v"),
		text("workdir", "working directory in the container", "w"),
		list("dns", "DNS server of the container"),
		text("ip", "IP address of the container in its --network"),
		list("security-opt", "security option of the component's container, such as label=type:container_runtime_t"),
		toggle("rm", "remove the container when it has ended"),
		text("restart", "when the engine starts the container again: no, on-failure[:N], unless-stopped or always (default no)"),
		&cli.StringFlag{Name: "image", Usage: "image of swarmd (default " + engine.ImageSwarmd + ")", EnvVars: env("image"), Category: forContainer},
	}
}

// envFlag is -e: for the component's container, and for the ML program where there is one.
func envFlag(usage string) cli.Flag {
	return &cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: usage}
}

// withoutContainer refuses the options that make no sense for a process, each with what to do instead. onlyContainer names
// further ones than containerFlags.
func withoutContainer(c *cli.Context, onlyContainer ...string) error {
	instead := map[string]string{
		"detach": "the process stays in the foreground: let systemd or a shell's & put it into the background",
		"sudo":   "put sudo before the command",
		"env":    "set the variable in the environment of this command",
		"user":   "start the process as that user",
	}
	var errs []error
	names := onlyContainer
	for _, f := range containerFlags() {
		names = append(names, f.Names()[0])
	}
	for _, name := range names {
		if name == "image" || !c.IsSet(name) {
			continue // SWARM_IMAGE may stand in any environment
		}
		do := instead[name]
		if do == "" {
			do = "leave it out"
		}
		errs = append(errs, fmt.Errorf("--%s is for containers and this is --runtime process: %s, or give --runtime docker", name, do))
	}
	return errors.Join(errs...)
}
