package daemon

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
)

// mlFlags are the options of the ML program's container.
func mlFlags() []cli.Flag {
	text := func(name, usage string, aliases ...string) cli.Flag {
		f := stringFlag(name, usage)
		f.Aliases, f.Category = aliases, forML
		return f
	}
	list := func(name, usage string, aliases ...string) cli.Flag {
		return &cli.StringSliceFlag{Name: name, Aliases: aliases, Usage: usage + " (repeatable)", Category: forML}
	}
	return []cli.Flag{
		stringFlag("ml-runtime", "how the ML program runs: process or docker (default: as --runtime)"),
		text("ml-client", "the client that the program has: original, swarmlearning or auto (default: original where the program would import that one)"),
		text("ml-image", "image (default: that of --sl-platform)"),
		text("ml-entrypoint", "program of the container, instead of --model-program"),
		text("ml-cmd", "command or its arguments, divided as a shell does, instead of --model-program"),
		text("ml-w", "working directory (default: the model directory)", "ml-workdir"),
		text("ml-name", "name of the container"),
		list("ml-v", "HOST-PATH:CONTAINER-PATH[:ro], mount another path of this host", "ml-volume"),
		list("ml-e", "K=V for the program only", "ml-env"),
		text("ml-user", "uid[:gid] of the program (default: the calling user's)", "ml-u"),
		list("ml-device", "a device of this host, such as /dev/kfd"),
		text("ml-ipc", "IPC namespace: private, shareable, host, none"),
		text("ml-shm-size", "size of /dev/shm, such as 8g (default 1g)"),
		list("ml-group-add", "further group of the program, such as video"),
		list("ml-cap-add", "capability to give (default: none)"),
		list("ml-security-opt", "security option, such as seccomp=unconfined"),
		&cli.BoolFlag{Name: "ml-privileged", Usage: "no isolation at all", Category: forML},
		text("ml-network", "network (default: none)", "ml-net"),
		text("ml-ip", "address in --ml-network (default: the engine's choice)"),
		text("ml-hostname", "host name in the container (default: made of --name)"),
		list("ml-dns", "DNS server of the container"),
		list("ml-label", "K=V, a label of the container"),
		text("ml-memory", "limit of memory, such as 512m or 8g (default: none)"),
		text("ml-cpus", "limit of CPUs, such as 1.5 (default: none)"),
		text("ml-gpus", "GPUs of the program as docker run --gpus takes them: all, a number, or device=0,2; the same as --gpu"),
		&cli.Int64Flag{Name: "ml-pids", Usage: "limit of processes and threads (default 4096)", EnvVars: env("ml-pids"), Category: forML},
	}
}

// noMLContainer refuses the options that need one, unless the environment gives them, which may be meant for others.
func noMLContainer(c *cli.Context, e Env) error {
	var errs []error
	for _, f := range mlFlags() {
		name, instead := f.Names()[0], "leave it out"
		switch name {
		case "ml-runtime", "ml-e", "ml-client", "ml-gpus": // they mean something without one
			continue
		case "ml-cmd", "ml-entrypoint":
			instead = "name the program with --model-program, its arguments with --model-program-args"
		}
		if c.IsSet(name) && e.Getenv(env(name)[0]) == "" {
			errs = append(errs, fmt.Errorf("--%s is for the ML program's container and this is --ml-runtime process: %s, or give --ml-runtime docker", name, instead))
		}
	}
	return errors.Join(errs...)
}
