package swci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/launch/sudo"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/shell"
	"github.com/swarmd/swarmd/internal/version"
)

// swciFlags are the options of run-swci. Those of boxFlags are for containers only.
func swciFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "usr-dir", Usage: "user directory `DIR`, with the startup script and the files that commands name"},
		&cli.StringFlag{Name: "init-script-name", Usage: "startup script `FILE`, directly in the user directory; swci-init, if there is one, if not given"},
		&cli.BoolFlag{Name: "web", Usage: "serve programs over HTTPS in place of the prompt: web mode"},
		&cli.StringSliceFlag{Name: "web-client", Usage: "SPIFFE ID `PATTERN` of clients of web mode beside those with its own identity; repeatable"},
		&cli.IntFlag{Name: "web-port", Value: webPort, Usage: "`PORT` of web mode"},
		metricsFlag("web mode"),
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
		&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "variable `NAME=VALUE` in the container; repeatable"},
		&cli.StringSliceFlag{Name: "label", Aliases: []string{"l"}, Usage: "label `NAME=VALUE` of the container; repeatable"},
		&cli.StringSliceFlag{Name: "publish", Aliases: []string{"p"}, Usage: "publish a port of the container, `HOST:PORT`; repeatable"},
		&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "`USER`[:GROUP] in the container"},
		&cli.StringSliceFlag{Name: "volume", Aliases: []string{"v"}, Usage: "mount a path of this host, `PATH:PATH`[:ro]; repeatable"},
		&cli.StringFlag{Name: "workdir", Aliases: []string{"w"}, Usage: "working directory `DIR` in the container"},
		&cli.StringSliceFlag{Name: "dns", Usage: "DNS `SERVER` of the container; repeatable"},
		&cli.StringFlag{Name: "ip", Usage: "IP `ADDRESS` of the container in its --network"},
		&cli.StringSliceFlag{Name: "security-opt", Usage: "security `OPTION` of the container, such as label=type:container_runtime_t; repeatable"},
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
	if o.IsSet(metrics.Option) && !o.Bool("web") {
		return exit.New(exit.Usage, "give --web too, or leave it out", "--metrics is for web mode: a prompt has none")
	}
	switch kind := strings.ToLower(o.String("runtime")); kind {
	case "docker":
		return s.runBox(ctx, o)
	case "", "process":
		if err := withoutBox(o); err != nil {
			return err
		}
		if o.Bool("web") {
			return s.runWeb(ctx, o)
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

// boxSpec is the container that run-swci's options ask for.
func (s *Session) boxSpec(c *cli.Context) (component.Spec, error) {
	o, err := s.boxOptions(c)
	if err != nil {
		return component.Spec{}, err
	}
	spec, err := o.Component(start.Env{Getenv: s.Env.Getenv, Version: version.Read().Version})
	if err != nil {
		return spec, &exit.Error{Status: exit.Usage, Err: err}
	}
	return spec, nil
}

// boxOptions reads run-swci's options. SNs, trust domains and identity may also come from a context, which the container does not
// see, or from the environment.
func (s *Session) boxOptions(c *cli.Context) (*start.SWCI, error) {
	o := new(start.SWCI)
	err := start.Read(o, func(name string) (values []string) {
		for _, x := range typed(c, []string{name}) {
			values = append(values, x.Value)
		}
		return values
	})
	if err != nil {
		return nil, &exit.Error{Status: exit.Usage, Err: err}
	}
	o.Container.TTY = s.interactive()
	target, err := s.anyTarget(c)
	if err != nil {
		return nil, err
	}
	o.SNs, o.TrustDomains, o.SPIFFEPrefix = target.SNs, target.TrustDomains, target.SPIFFEPrefix
	o.Agent, o.Certificates = target.agent, start.Certificates{}
	if o.Agent != nil || target.Identity == "" {
		return o, nil
	}
	if query, files := strings.CutPrefix(target.Identity, filesPrefix); files {
		q, err := url.ParseQuery(query)
		if err != nil {
			return nil, exit.New(exit.Usage, "", "identity %q: %w", target.Identity, err)
		}
		return o, start.Read(&o.Certificates, func(name string) []string { return q[name] })
	}
	socket, err := identitySocket(target.Identity, s.Env.Getenv)
	if err != nil {
		return nil, err
	}
	o.SocketPath = identity.UnixPath(socket)
	return o, identityAnswers(context.Background(), o.SocketPath)
}
