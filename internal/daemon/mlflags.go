package daemon

import (
	"errors"
	"fmt"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// minMemory is what engines ask of a limit at least, in bytes.
const minMemory = 6 << 20

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
		&cli.BoolFlag{Name: "ml-privileged", Usage: "no walls at all", Category: forML},
		text("ml-network", "network (default: none)", "ml-net"),
		text("ml-memory", "limit of memory, such as 512m or 8g (default: none)"),
		text("ml-cpus", "limit of CPUs, such as 1.5 (default: none)"),
		&cli.Int64Flag{Name: "ml-pids", Usage: "limit of processes and threads (default 4096)", EnvVars: env("ml-pids"), Category: forML},
	}
}

// mlForProcess are the options of mlFlags that mean something for a program without a container.
func mlForProcess(name string) bool { return name == "ml-runtime" || name == "ml-e" }

// noMLContainer refuses the options that need one, unless the environment gives them, which may be meant for others.
func noMLContainer(c *cli.Context, e Env) error {
	var errs []error
	for _, f := range mlFlags() {
		if name := f.Names()[0]; !mlForProcess(name) && c.IsSet(name) && e.Getenv(env(name)[0]) == "" {
			errs = append(errs, fmt.Errorf("--%s is for the ML program's container and this is --ml-runtime process: leave it out, or give --ml-runtime docker", name))
		}
	}
	return errors.Join(errs...)
}

var (
	gpuName       = regexp.MustCompile(`^(\d{1,4}(:\d{1,4})?|(GPU|MIG)-[0-9A-Za-z/-]{1,100})$`)
	containerName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`)
)

// gpus reads --gpu: "" none, "all", or a list of indexes (0,2) or UUIDs.
func gpus(given string) (string, error) {
	if given == "" || strings.EqualFold(given, "all") {
		return strings.ToLower(given), nil
	}
	list := strings.Split(given, ",")
	for i, g := range list {
		list[i] = strings.TrimSpace(g)
		if !gpuName.MatchString(list[i]) {
			return "", fmt.Errorf("--gpu %s: want all, or indexes from 0 on such as 0,2", given)
		}
		if slices.Contains(list[:i], list[i]) {
			return "", fmt.Errorf("--gpu %s: %s is named twice", given, list[i])
		}
	}
	return strings.Join(list, ","), nil
}

// platformOf reads --sl-platform, in any case.
func platformOf(c *cli.Context) (string, error) {
	switch p := strings.ToUpper(c.String("sl-platform")); p {
	case "":
		return "TF", nil
	case "PYT", "TF":
		return p, nil
	}
	return "", fmt.Errorf("--sl-platform %s: unsupported platform; want PYT or TF", c.String("sl-platform"))
}

// ownCommand tells whether the user says what the ML container runs, so that --model-program need not.
func ownCommand(c *cli.Context) bool {
	return c.String("ml-cmd") != "" || c.String("ml-entrypoint") != ""
}

// mlSpec reads the options of the ML program's container. The paths in it are as given.
func mlSpec(c *cli.Context, e Env) (*container.Spec, error) {
	s := &container.Spec{
		Name: c.String("ml-name"), Image: c.String("ml-image"), Program: c.String("model-program"), WorkDir: c.String("ml-w"),
		Env: slices.Concat(forProgram(keyValues(c, e, "env")), keyValues(c, e, "ml-e")), Mounts: c.StringSlice("ml-v"),
		Network: c.String("ml-network"), Pids: c.Int64("ml-pids"), Devices: c.StringSlice("ml-device"),
		GroupAdd: c.StringSlice("ml-group-add"), CapAdd: c.StringSlice("ml-cap-add"), SecurityOpt: c.StringSlice("ml-security-opt"),
		IPC: c.String("ml-ipc"), Privileged: c.Bool("ml-privileged"), DataDir: c.String("data-dir"), ModelDir: c.String("model-dir"),
	}
	var err error
	if s.Platform, err = platformOf(c); err != nil {
		return nil, err
	}
	if s.Image == "" {
		s.Image = map[string]string{"PYT": engine.ImagePYT, "TF": engine.ImageTF}[s.Platform]
	}
	if s.GPUs, err = gpus(c.String("gpu")); err != nil {
		return nil, err
	}
	if s.Entrypoint, err = words(c, "ml-entrypoint"); err != nil {
		return nil, err
	}
	if s.Cmd, err = words(c, "ml-cmd"); err != nil {
		return nil, err
	}
	if s.User, err = mlUser(c.String("ml-user"), caller(e)); err != nil {
		return nil, err
	}
	return s, errors.Join(mlLimits(c, s), checkEnv("ml-e", keyValues(c, e, "ml-e")), checkName("ml-name", s.Name))
}

func words(c *cli.Context, option string) ([]string, error) {
	list, err := splitWords(c.String(option))
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", option, c.String(option), err)
	}
	return list, nil
}

func checkName(option, name string) error {
	if name != "" && !containerName.MatchString(name) {
		return fmt.Errorf("--%s %s: no name for a container; want letters, digits and _ . -, two at least", option, name)
	}
	return nil
}

// sizeOf reads an option that is a size in bytes; 0: it is not given.
func sizeOf(c *cli.Context, option string) (int64, error) {
	text := c.String(option)
	if text == "" {
		return 0, nil
	}
	n, err := units.RAMInBytes(text)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("--%s %s: want a size such as 512m or 8g", option, text)
	}
	return n, nil
}

// mlLimits reads the sizes and numbers.
func mlLimits(c *cli.Context, s *container.Spec) error {
	var errs [4]error
	s.Memory, errs[0] = sizeOf(c, "ml-memory")
	if errs[0] == nil && s.Memory != 0 && s.Memory < minMemory {
		errs[0] = fmt.Errorf("--ml-memory %s: engines take 6m at least; without a unit it is bytes", c.String("ml-memory"))
	}
	s.ShmSize, errs[1] = sizeOf(c, "ml-shm-size")
	if text := c.String("ml-cpus"); text != "" {
		var err error
		if s.CPUs, err = strconv.ParseFloat(text, 64); err != nil || !(s.CPUs >= 0.01 && s.CPUs <= 1e5) {
			errs[2] = fmt.Errorf("--ml-cpus %s: want a number of CPUs such as 1.5", text)
		}
	}
	if c.IsSet("ml-pids") && s.Pids < 1 {
		errs[3] = fmt.Errorf("--ml-pids %d: want 1 or more", s.Pids)
	}
	return errors.Join(errs[:]...)
}

// mlUser is uid:gid in numbers. A name or a uid alone is looked up among this host's users, as nobody in the image knows
// them; "" is the caller.
func mlUser(given, caller string) (string, error) {
	if given == "" {
		return caller, nil
	}
	bad := func(why string) error {
		return fmt.Errorf("--ml-user %s: %s; want UID:GID in numbers", given, why)
	}
	name, group, hasGroup := strings.Cut(given, ":")
	u, err := user.LookupId(name)
	if err != nil {
		u, err = user.Lookup(name)
	}
	uid := name
	if err == nil {
		uid = u.Uid
	} else if !number(name) {
		return "", bad("there is no user " + name + " on this host")
	}
	if !hasGroup {
		if err != nil {
			return "", bad("user " + name + " is unknown on this host and so is its group")
		}
		return uid + ":" + u.Gid, nil
	}
	if !number(group) {
		g, err := user.LookupGroup(group)
		if err != nil {
			return "", bad("there is no group " + group + " on this host")
		}
		group = g.Gid
	}
	return uid + ":" + group, nil
}

// number tells whether the text is a user's or group's number.
func number(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}
