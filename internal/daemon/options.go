package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/userdirs"
	"github.com/swarmd/swarmd/node"
)

// Flags that several commands share; the name in the environment is SWARM_ and the flag's name in capitals.
func env(flag string) []string {
	return []string{"SWARM_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
}

func stringFlag(name, usage string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, Usage: usage, EnvVars: env(name)}
}

func portFlag(name string, value int, usage string) *cli.IntFlag {
	return &cli.IntFlag{Name: name, Usage: usage, Value: value, EnvVars: env(name)}
}

// commonFlags are those of every node.
func commonFlags() []cli.Flag {
	return append([]cli.Flag{
		stringFlag("name", "name of this node (default: <role>-<host>-<port>)"),
		stringFlag("host-ip", "address or host name under which the other nodes reach this one (required)"),
		stringFlag("state-dir", "directory that keeps this node's key and state"),
		stringFlag("identity", "where identities come from: embedded[=DIR] (one machine, see run-authority) or spiffe"),
		stringFlag("socket-path", "SPIFFE Workload API socket of an agent (default: $SPIFFE_ENDPOINT_SOCKET)"),
		&cli.StringSliceFlag{Name: "trust-domain", Usage: "accept this foreign trust domain too (repeatable)"},
		stringFlag("swarm-id", "refuse any swarm but this one from the first contact on"),
		runtimeFlag(),
		stringFlag("log-level", "debug, info, warn or error"),
		stringFlag("config-file", "YAML file with these options by name; the command line and the environment win over it"),
		// Accepted for the original's sake: there is no licence server.
		stringFlag("apls-ip", "accepted, changes nothing: no licence is needed"),
		stringFlag("apls-port", "accepted, changes nothing: no licence is needed"),
		stringFlag("apls-docker-name", "accepted, changes nothing: no licence is needed"),
	}, slices.Concat(certFlags(), agentFlags(), containerFlags())...)
}

// common reads what commonFlags say into a node's configuration.
func common(c *cli.Context, e Env, role, logger string, port int) (node.Common, error) {
	level, err := logLevel(c.String("log-level"))
	if err != nil {
		return node.Common{}, err
	}
	r, err := start.Runtime("runtime", c.String("runtime"), start.Process)
	if err == nil && r == start.Process {
		err = withoutContainer(c, own(role)...)
	}
	if err != nil {
		return node.Common{}, err
	}
	host := c.String("host-ip")
	if host == "" {
		return node.Common{}, fmt.Errorf("mandatory parameter --host-ip not specified; give the address under which other nodes reach this one")
	}
	cfg := node.Common{
		Name: c.String("name"), Host: host, SwarmID: c.String("swarm-id"), TrustDomains: c.StringSlice("trust-domain"),
		StateDir: c.String("state-dir"), Log: newLogger(e.Stderr, logger, level),
	}
	p2p.BridgeLogs(newLogger(e.Stderr, "swarm.p2p", slog.LevelWarn).Handler())
	if cfg.Name == "" {
		cfg.Name = fmt.Sprintf("%s-%s-%d", role, strings.NewReplacer(":", "-").Replace(host), port)
	}
	if cfg.StateDir == "" {
		nodes, err := userdirs.Of(e.Getenv).Nodes()
		if err != nil {
			return cfg, err
		}
		cfg.StateDir = filepath.Join(nodes, cfg.Name)
	}
	if r == start.Process && (c.IsSet("apls-ip") || c.IsSet("apls-port") || c.IsSet("apls-docker-name")) { // else the container says it
		cfg.Log.Info("no licence server is needed: --apls options change nothing")
	}
	var n start.Node
	if err := read(c, &n); err != nil {
		return cfg, err
	}
	agent, err := n.AgentConfig(e.Getenv)
	if err != nil {
		return cfg, err
	}
	if files, err := withCerts(c, &cfg); err != nil || files {
		if err == nil && agent != nil {
			err = errors.New("--cert takes the identity from files, the agent's options from an agent that is started: give one of the two")
		}
		return cfg, err
	}
	if agent != nil {
		err = withAgent(&cfg, agent)
		return cfg, err
	}
	if cfg.SocketPath, err = socketPath(c, e, role); err == nil && !n.Embedded() {
		atHost(&cfg)
	}
	return cfg, err
}

// own are the options that a role has for its container only, beside containerFlags.
func own(role string) []string {
	if role == "sl" {
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

// socketPath finds the Workload API: an embedded authority's socket for this role, or an agent's.
func socketPath(c *cli.Context, e Env, role string) (string, error) {
	n := start.Node{Identity: c.String("identity"), SocketPath: c.String("socket-path")}
	return n.Socket(e.Getenv, identity.Role(role))
}
