package daemon

import (
	"log/slog"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/logs/form"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/userdirs"
)

// serverOptions are the options of `spire-server run` that are passed on. Those that are swarmd's too are not among them:
// -config, -trustDomain, -logLevel.
func serverOptions() []cli.Flag {
	option := func(name, usage string) cli.Flag { return &cli.StringFlag{Name: name, Usage: usage, Hidden: true} }
	return []cli.Flag{
		option("bindAddress", "address that the SPIRE server binds"),
		option("dataDir", "directory of the SPIRE server's data"),
		&cli.BoolFlag{Name: "expandEnv", Usage: "expand environment variables in the SPIRE server's file", Hidden: true},
		option("logFile", "file that the SPIRE server logs to"),
		option("logFormat", "text or json"),
		&cli.BoolFlag{Name: "logSourceLocation", Usage: "the SPIRE server logs where in its source it is", Hidden: true},
		option("serverPort", "port of the SPIRE server"),
		option("socketPath", "the SPIRE server's API socket"),
	}
}

func spireServerCommand(e Env) *cli.Command {
	flags := append([]cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "any configuration file of a SPIRE server (default: one is written into the state directory)"},
		stringFlag("state-dir", "directory that keeps the server's configuration, data and API socket"),
		&cli.StringFlag{
			Name: "trust-domain", Aliases: []string{"trustDomain"}, // no variable: a node's names foreign domains
			Usage: "the server's trust domain (default: that of the file, or " + spire.DefaultTrustDomain + ")",
		},
		&cli.StringSliceFlag{Name: "node", Usage: "registration entry for one node, such as sl/hospital-a (repeatable)"},
		&cli.StringSliceFlag{Name: "federates-with", Usage: "let the swarm's entries federate with this trust domain (repeatable)"},
		&cli.StringFlag{Name: "name", Usage: "name by which this host knows the server, and of its container (default: spire-server, and the engine's choice)"},
		runtimeFlag(), envFlag("K=V in the container's environment, with --runtime docker (repeatable)"), metricsFlag("it"),
		&cli.StringFlag{Name: "log-level", Aliases: []string{"logLevel"}, EnvVars: env("log-level"), Usage: "debug, info, warn or error"},
		stringFlag("config-file", "YAML file with these options by name; the command line and the environment win over it"),
	}, slices.Concat(serverOptions(), containerFlags())...)
	cmd := command("run-spire-server", "run a SPIRE server with the swarm's registration entries", flags, func(c *cli.Context) error {
		r, err := start.Runtime("runtime", c.String("runtime"), start.Process)
		if err == nil && r == start.Process {
			err = withoutContainer(c, "env")
		}
		if err != nil {
			return err
		}
		var o start.SpireServer
		if err := read(c, &o); err != nil {
			return err
		}
		return runSpireServer(c, e, &o)
	})
	cmd.Description = "Every other option of `spire-server run` is passed on. An entry that an operator edits is left alone, one that is deleted is not made again."
	return cmd
}

func runSpireServer(c *cli.Context, e Env, o *start.SpireServer) error {
	// The server drops what is below its level by itself; the file may say which that is.
	args, level := o.SPIRE.Args(), slog.LevelDebug
	if o.LogLevel != "" {
		var err error
		if level, err = logLevel(o.LogLevel); err != nil {
			return err
		}
		args = append(args, "-logLevel", o.LogLevel)
	}
	if inContainer(c) {
		spec, err := o.Component(startEnv(e))
		if err != nil {
			return err
		}
		return runComponent(c, e, runsSpec(spec))
	}
	dir := o.StateDir
	if dir == "" {
		var err error
		if dir, err = userdirs.Of(e.Getenv).SPIREServer(); err != nil {
			return err
		}
	}
	log := form.New(e.Stderr, "swarm.spire", level)
	defer registerProcess(e, engine.RoleSpireServer, o.NodeName(), "", dir, log)()
	m, err := openMetrics(c.Context, e, o.Metrics, o.NodeName(), metrics.RoleSpireServer, log)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }() // its readers have gone by then, or are cut
	return spire.RunServer(c.Context, spire.ServerConfig{
		ConfigFile: o.Config, StateDir: dir, TrustDomain: o.TrustDomain, Args: args, Nodes: o.Nodes, FederatesWith: o.FederatesWith, Log: log, Answers: m.SpireServer(),
	})
}

// serverSocket finds the API socket of a SPIRE server on this machine.
func serverSocket(e Env) string {
	dir, _ := userdirs.Of(e.Getenv).SPIREServer() // without a home there is no server in it
	return spire.ServerSocket(dir)
}
