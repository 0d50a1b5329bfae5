package daemon

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/logs/form"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/userdirs"
	"github.com/swarmd/swarmd/node"
)

// Flags that several commands share; the name in the environment is SWARM_ and the flag's name in capitals.
func env(flag string) []string {
	return []string{cmdline.Variable(flag)}
}

func stringFlag(name, usage string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, Usage: usage, EnvVars: env(name)}
}

func portFlag(name string, value start.Port, usage string) *cli.IntFlag {
	return &cli.IntFlag{Name: name, Usage: usage, Value: int(value), EnvVars: env(name)}
}

// keptLog is how many bytes of a node's log are kept for operators who ask for it.
const keptLog = 512 << 10

// commonFlags are those of every node.
func commonFlags() []cli.Flag {
	return append([]cli.Flag{
		stringFlag("name", "name of this node (default: <role>-<host>-<port>)"),
		stringFlag("host-ip", "address or host name under which the other nodes reach this one (required)"),
		stringFlag("state-dir", "directory that keeps this node's key and state"),
		stringFlag("identity", "where identities come from: embedded[=DIR] (one machine, see run-authority) or spiffe"),
		stringFlag("socket-path", "SPIFFE Workload API socket of an agent (default: $SPIFFE_ENDPOINT_SOCKET)"),
		&cli.StringSliceFlag{Name: "trust-domain", Usage: "accept this foreign trust domain too (repeatable)"},
		stringFlag("spiffe-prefix", "prefix of the role in SPIFFE IDs, the same on all nodes: /swarm (default), or / for IDs such as spiffe://DOMAIN/sl"),
		stringFlag("swarm-id", "refuse any swarm but this one from the first contact on"),
		stringFlag("invite", "FILE with the invitation that `swarmctl invite` printed, - for standard input: name, identity, SNs and swarm are its own; a restart needs none"),
		runtimeFlag(),
		metricsFlag("this node", env(metrics.Option)...),
		stringFlag("log-level", "debug, info, warn or error"),
		stringFlag("config-file", "YAML file with these options by name; the command line and the environment win over it"),
	}, slices.Concat(certFlags(), agentFlags(), containerFlags())...)
}

// logsToFlag is one of nodes that have no policy.
func logsToFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "logs-to", EnvVars: env("logs-to"), Usage: "let operators of these SPIFFE IDs read this node's log and figures with swarmctl get logs and get node, such as spiffe://b.example/swarm/swci/* (repeatable; none: nobody; default: operators of the node's own trust domain)"}
}

// problems is what is wrong with a command's options, in the order in which it was looked for.
type problems []error

// add takes what is no nil, and reports whether there was nothing to take.
func (p *problems) add(errs ...error) bool {
	before := len(*p)
	for _, err := range errs {
		if err != nil {
			*p = append(*p, err)
		}
	}
	return len(*p) == before
}

func (p problems) first() error {
	for _, err := range p {
		return err
	}
	return nil
}

// commonProblems makes what SNs and SLs have in common into a node's configuration. port is the one that the node's name has if it has no
// other.
func commonProblems(c *cli.Context, e Env, o *start.Node, role identity.Role, port start.Port) (node.Common, problems) {
	var wrong problems
	level, err := logLevel(o.LogLevel)
	wrong.add(err)
	r, err := start.Runtime("runtime", c.String("runtime"), start.Process)
	if wrong.add(err) && r == start.Process {
		wrong.add(withoutContainer(c, own(role)...))
	}
	wrong.add(o.CheckHost())
	prefix, err := identity.ParsePrefix(o.SPIFFEPrefix)
	wrong.add(err)
	kept := logs.NewRing(keptLog)
	cfg := node.Common{
		Name: o.NodeName(role, port), Host: o.Host, SwarmID: o.SwarmID, TrustDomains: o.TrustDomains, SPIFFEPrefix: prefix, StateDir: o.StateDir, Metrics: string(o.Metrics),
		Log: form.New(io.MultiWriter(e.Stderr, kept), loggerOf(role), level), OwnLog: kept, MetricsLocal: e.Getenv(start.MetricsLocal) != "",
	}
	sayOpen(o.Metrics, e, cfg.Log)
	p2p.BridgeLogs(form.New(e.Stderr, "swarm.p2p", slog.LevelWarn).Handler())
	if cfg.StateDir == "" {
		nodes, err := userdirs.Of(e.Getenv).Nodes()
		wrong.add(err)
		cfg.StateDir = filepath.Join(nodes, cfg.Name)
	}
	if len(wrong) == 0 { // it keeps the invitation
		wrong.add(takeInvitation(o, e, r, &cfg))
	}
	wrong.add(withIdentity(o, e, role, &cfg))
	return cfg, wrong
}

// loggerOf is the name of a node's logger, as the original has it.
func loggerOf(role identity.Role) string {
	if role == identity.RoleSWOP {
		return "swarm.swop"
	}
	return "swarm." + strings.ToUpper(string(role))
}

// withIdentity lets a node open its identity where its options say.
func withIdentity(o *start.Node, e Env, role identity.Role, cfg *node.Common) error {
	agent, err := o.AgentConfig(e.Getenv)
	if err != nil {
		return err
	}
	if files, err := withCerts(o, cfg); err != nil || files {
		if err == nil && agent != nil {
			err = errors.New("--cert takes the identity from files, the agent's options from an agent that is started: give one of the two")
		}
		return err
	}
	if agent != nil {
		return withAgent(cfg, agent, func() string { return o.AgentDir(e.Getenv, cfg.StateDir) })
	}
	if cfg.SocketPath, err = o.Socket(e.Getenv, role); err == nil && !o.Embedded() {
		atHost(cfg)
	}
	return err
}

// own are the options that a role has for its container only, beside containerFlags.
func own(role identity.Role) []string {
	if role == identity.RoleSL {
		return nil // -e is for the program too
	}
	return []string{"env"}
}

func logLevel(s string) (slog.Level, error) {
	var level slog.Level
	if s == "" {
		return level, nil
	}
	if err := level.UnmarshalText([]byte(s)); err != nil {
		return level, fmt.Errorf("--log-level %s: want debug, info, warn or error", s)
	}
	return level, nil
}
