package swci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/sudo"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/shell"
	"github.com/swarmd/swarmd/internal/terminal"
)

// usrDirs are where the container has the user directory: for scripts for the original's releases, old and new.
var usrDirs = []string{"/platform/swci/usr", "/platform/swarm/usr"}

// swciFlags are the options of run-swci. Those of boxFlags are for containers only.
func swciFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "usr-dir", Usage: "user directory `DIR`, with the startup script and the files that commands name"},
		&cli.StringFlag{Name: "init-script-name", Usage: "startup script `FILE`, directly in the user directory; swci-init, if there is one, if not given"},
		&cli.StringFlag{Name: "runtime", EnvVars: []string{"SWARM_RUNTIME"}, Usage: "`KIND` process, in which the prompt is this process, or docker (default process)"},
	}, boxFlags()...)
}

func boxFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "`NAME` of the container"},
		&cli.StringFlag{Name: "hostname", Usage: "host `NAME` in the container; its name if not given"},
		&cli.StringFlag{Name: "network", Aliases: []string{"net"}, Usage: "`NETWORK` of the container; the engine's bridge if not given"},
		&cli.BoolFlag{Name: "sudo", Usage: "use sudo to reach the container engine"},
		&cli.BoolFlag{Name: "it", Aliases: []string{"ti"}, Usage: "keep standard input open and allocate a terminal; always so if there is one"},
		&cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "keep standard input open; always so"},
		&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "allocate a terminal; always so if there is one"},
		&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "not for a prompt", Hidden: true},
		&cli.StringSliceFlag{Name: "e", Aliases: []string{"env"}, Usage: "variable `NAME=VALUE` in the container; repeatable"},
		&cli.StringSliceFlag{Name: "label", Aliases: []string{"l"}, Usage: "label `NAME=VALUE` of the container; repeatable"},
		&cli.StringSliceFlag{Name: "publish", Aliases: []string{"p"}, Usage: "publish a port of the container, `HOST:PORT`; repeatable"},
		&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "`USER`[:GROUP] in the container"},
		&cli.StringSliceFlag{Name: "volume", Aliases: []string{"v"}, Usage: "mount a path of this host, `PATH:PATH`[:ro]; repeatable"},
		&cli.StringFlag{Name: "workdir", Aliases: []string{"w"}, Usage: "working directory `DIR` in the container"},
		&cli.BoolFlag{Name: "rm", Usage: "remove the container when it has ended; always so"},
		&cli.StringFlag{Name: "image", EnvVars: []string{"SWARM_IMAGE"}, Usage: "`IMAGE` of swarmd (default " + engine.ImageSwarmd + ")"},
	}
}

func runSWCI(ctx context.Context, s *Session, args Args) error {
	o := args.Opts
	if dir := o.String("usr-dir"); dir != "" || o.IsSet("init-script-name") {
		abs, err := userDir(dir)
		if err != nil && dir != "" {
			return err
		}
		if dir == "" {
			abs = ""
		}
		if err := shell.CheckScript(abs, o.String("init-script-name")); err != nil {
			return err
		}
	}
	switch kind := strings.ToLower(o.String("runtime")); kind {
	case "docker":
		return s.runBox(ctx, o)
	case "", "process":
		if err := withoutBox(o); err != nil {
			return err
		}
		return s.runPrompt(ctx, o)
	default:
		return exit.New(exit.Usage, "use process or docker; Podman is docker too, with its socket in DOCKER_HOST", "--runtime %s is not known", o.String("runtime"))
	}
}

// withoutBox refuses options that only a container has. Those that a prompt always fulfils are none.
func withoutBox(o *cli.Context) error {
	for _, f := range boxFlags() {
		switch name := f.Names()[0]; name {
		case "it", "interactive", "tty", "rm", "image":
		default:
			if o.IsSet(name) {
				return exit.New(exit.Usage, "leave it out, or give --runtime docker", "--%s is for containers, and this is --runtime process", name)
			}
		}
	}
	return nil
}

// runBox runs the prompt in a container, which is removed at the end.
func (s *Session) runBox(ctx context.Context, o *cli.Context) error {
	if o.Bool("detach") {
		return exit.New(exit.Usage, "leave -d out; a startup script that ends in EXIT needs nobody at the prompt", "a prompt can't run in the background")
	}
	root := sudo.OS()
	if o.Bool("sudo") && root.UID() != 0 {
		return exit.New(exit.Failed, "", "%w", root.Again(s.argv, os.Environ()))
	}
	spec, err := s.boxSpec(o)
	if err != nil {
		return err
	}
	e, err := engine.Open(ctx)
	if errors.Is(err, fs.ErrPermission) && !o.IsSet("sudo") && root.Helps(ctx, spec.TTY) {
		fmt.Fprintln(s.Env.Stderr, "the container engine's socket refuses this user: running again under sudo (--sudo=false: not)")
		return exit.New(exit.Failed, "", "%w", root.Again(s.argv, os.Environ()))
	}
	if err != nil {
		return boxError(err)
	}
	defer e.Close()
	code, err := component.Run(ctx, e, spec, component.IO{
		Stdin: s.Env.Stdin, Stdout: s.Env.Stdout, Stderr: s.Env.Stderr, Log: slog.New(notices{s.Env.Stderr}), Getenv: s.Env.Getenv,
	})
	if err != nil {
		return boxError(err)
	}
	if code != 0 {
		return exit.Said(code)
	}
	return nil
}

// boxError gives an engine's error its remedy as a hint.
func boxError(err error) error {
	out := &exit.Error{Status: exit.Failed, Err: err}
	var e interface{ Remedy() string }
	if errors.As(err, &e) {
		out.Hint = e.Remedy()
	}
	return out
}

// boxSpec translates run-swci's options into its container.
func (s *Session) boxSpec(o *cli.Context) (component.Spec, error) {
	spec := component.Spec{
		Role: naming.RoleSWCI, Scope: engine.Scope(s.Env.Getenv), Version: buildVersion().Version, Stateless: true,
		Program: []string{"swarmctl"}, Args: []string{"run-swci", "--runtime=process"},
		// The container's root can't be written, and what swarmctl keeps ends with it anyway.
		Vars: []string{"XDG_STATE_HOME=/tmp/state", "HOME=/tmp", "TERM=" + first(s.Env.Getenv("TERM"), "xterm")},
		Options: component.Options{
			Name: o.String("name"), Hostname: o.String("hostname"), Network: o.String("network"), User: o.String("user"),
			WorkDir: o.String("workdir"), Image: o.String("image"), Env: o.StringSlice("e"), Labels: o.StringSlice("label"),
			Publish: o.StringSlice("publish"), Volumes: o.StringSlice("volume"), Remove: true, Interactive: true,
		},
	}
	if in, ok := s.Env.Stdin.(*os.File); ok && terminal.Is(in) && s.Env.IsTerminal(s.Env.Stdout) {
		spec.TTY = true
	}
	if prog := s.Env.Getenv("SWARM_PROG"); prog != "" {
		spec.Vars = append(spec.Vars, "SWARM_PROG="+filepath.Base(prog))
	}
	if dir := o.String("usr-dir"); dir != "" {
		abs, err := userDir(dir)
		if err != nil {
			return spec, err
		}
		for _, target := range usrDirs {
			spec.Mounts = append(spec.Mounts, component.Mount{Source: abs, Target: target})
		}
		spec.Args = append(spec.Args, "--usr-dir="+usrDirs[0])
	}
	if o.IsSet("init-script-name") {
		spec.Args = append(spec.Args, "--init-script-name="+o.String("init-script-name"))
	}
	for _, x := range append(typed(o, []string{"sn"}), typed(o, []string{"trust-domain"})...) {
		spec.Args = append(spec.Args, x.As(x.Name))
	}
	return spec, s.boxIdentity(o, &spec)
}

// boxIdentity gives the container the identity that is asked for: files are mounted at their places, an agent is started
// inside, one of this host is reached through its socket. Without any the prompt starts all the same: it has commands that
// need none.
func (s *Session) boxIdentity(o *cli.Context, spec *component.Spec) error {
	target, err := s.anyTarget(o)
	if err != nil {
		return err
	}
	if len(target.SNs) > 0 && !o.IsSet("sn") {
		for _, sn := range target.SNs { // of a context, which the container does not see
			spec.Args = append(spec.Args, "--sn="+sn)
		}
	}
	if target.agent != nil {
		target.agent.Role = identity.RoleSWCI
		spec.Agent = target.agent
		return nil
	}
	var files bool
	for _, name := range certOptions {
		if !o.IsSet(name) {
			continue
		}
		files = true
		value := o.String(name)
		if name != "cert-roles" {
			if value, err = filepath.Abs(value); err != nil {
				return fmt.Errorf("find --%s: %w", name, err)
			}
			spec.Files = append(spec.Files, value)
		}
		spec.Args = append(spec.Args, "--"+name+"="+value)
	}
	if files || target.Identity == "" || strings.HasPrefix(target.Identity, filesPrefix) {
		return nil
	}
	socket, err := identitySocket(target.Identity, s.Env.Getenv)
	if err != nil {
		return err
	}
	socket = strings.TrimPrefix(strings.TrimPrefix(socket, "unix://"), "unix:")
	if err := identityAnswers(context.Background(), socket); err != nil {
		return err
	}
	spec.SocketPath = socket
	spec.Args = append(spec.Args, "--identity="+socket)
	var info unix.Stat_t
	if err := unix.Stat(socket, &info); err == nil && spec.User == "" && info.Mode&0o006 != 0o006 {
		spec.User = fmt.Sprintf("%d:%d", info.Uid, info.Gid) // nobody else may speak with it
	}
	return nil
}
