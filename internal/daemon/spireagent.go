package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/node"
)

// shownAgentOptions are the agent's options that help lists one by one.
var shownAgentOptions = map[string]bool{"config": true, "serverAddress": true, "serverPort": true, "joinToken": true, "trustBundle": true, "trustDomain": true}

// agentHelp is the one line that stands for the others.
const agentHelp = "A SPIRE agent of the node's own is started by -serverAddress or -config; every other option of `spire-agent run` is taken too and passed on."

// described adds a paragraph to a command's help.
func described(text string, c *cli.Command) *cli.Command {
	c.Description = text
	return c
}

// agentFlags are the options of a SPIRE agent that is the node's child: all that `spire-agent run` knows, in its own
// spelling, and where a join token is had from.
func agentFlags() []cli.Flag {
	var flags []cli.Flag
	for _, o := range spire.AgentOptions() {
		if o.Bool {
			flags = append(flags, &cli.BoolFlag{Name: o.Name, Usage: "of the child agent: " + o.Usage, Hidden: !shownAgentOptions[o.Name], EnvVars: agentEnv(o.Name)})
			continue
		}
		flags = append(flags, &cli.StringFlag{Name: o.Name, Usage: "of the child agent: " + o.Usage, Hidden: !shownAgentOptions[o.Name], EnvVars: agentEnv(o.Name)})
	}
	return append(flags,
		&cli.BoolFlag{Name: "gen-join-token", Aliases: []string{"genJoinToken"}, Usage: "have a join token made by the SPIRE server, on this machine or over ssh", EnvVars: env("gen-join-token")},
		stringFlag("spire-docker-name", "container of the SPIRE server, to make a join token in"),
		stringFlag("spire-server-socket", "API socket of a SPIRE server on this machine, to make a join token (default "+spire.DefaultServerSocket+")"),
		stringFlag("ssh-user", "user for ssh to the SPIRE server's machine"),
		portFlag("ssh-port", 0, "port for ssh to the SPIRE server's machine"),
	)
}

// agentEnv is the variable of an option in camel case: SWARM_SPIRE_JOIN_TOKEN.
func agentEnv(name string) []string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return []string{"SWARM_SPIRE_" + b.String()}
}

// agentConfig reads the options of a child agent; nil without any.
func agentConfig(c *cli.Context) (*spire.AgentConfig, error) {
	var args, given []string
	for _, o := range spire.AgentOptions() {
		if !c.IsSet(o.Name) {
			continue
		}
		given = append(given, "-"+o.Name)
		switch o.Name {
		case "config", "serverAddress", "serverPort", "joinToken", "trustDomain":
		default:
			args = append(args, fmt.Sprintf("-%s=%v", o.Name, c.Value(o.Name)))
		}
	}
	for _, name := range []string{"gen-join-token", "spire-docker-name", "spire-server-socket", "ssh-user", "ssh-port"} {
		if c.IsSet(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) == 0 {
		return nil, nil
	}
	cfg := &spire.AgentConfig{
		ConfigFile: c.String("config"), ServerAddress: c.String("serverAddress"), TrustDomain: c.String("trustDomain"),
		JoinToken: c.String("joinToken"), NodeName: c.String("name"), Args: args,
	}
	return cfg, agentConflicts(c, cfg, given[0])
}

// agentConflicts finds options that exclude each other, and reads the rest of them.
func agentConflicts(c *cli.Context, cfg *spire.AgentConfig, some string) error {
	switch {
	case fromAuthority(c):
		return fmt.Errorf("%s starts a SPIRE agent, --identity embedded needs none: give one of the two", some)
	case c.String("socket-path") != "":
		return fmt.Errorf("%s starts a SPIRE agent, --socket-path names one that runs already: give one of the two (-socketPath says where the started one puts its socket)", some)
	case c.IsSet("joinToken") && c.Bool("gen-join-token"):
		return errors.New("-joinToken and -genJoinToken: give one of the two")
	case !c.Bool("gen-join-token") && (c.IsSet("spire-docker-name") || c.IsSet("spire-server-socket") || c.IsSet("ssh-user") || c.IsSet("ssh-port")):
		return fmt.Errorf("%s says how a join token is made: give -genJoinToken too", some)
	}
	if s := c.String("serverPort"); s != "" {
		if _, err := fmt.Sscanf(s+"\n", "%d\n", &cfg.ServerPort); err != nil || cfg.ServerPort < 1 || cfg.ServerPort > 65535 {
			return fmt.Errorf("-serverPort %s: want a port from 1 to 65535", s)
		}
	}
	if !c.Bool("gen-join-token") {
		return nil
	}
	cfg.GenJoinToken = &spire.TokenSource{
		Socket: c.String("spire-server-socket"), Docker: c.String("spire-docker-name"), SSHUser: c.String("ssh-user"), SSHPort: c.Int("ssh-port"),
		ServerAddress: cfg.ServerAddress,
	}
	if cfg.GenJoinToken.Socket == "" {
		cfg.GenJoinToken.Socket = spire.DefaultServerSocket
	}
	return nil
}

// withAgent lets a node open its identity at an agent that it starts, which ends when the node closes the identity.
func withAgent(base *node.Common, cfg *spire.AgentConfig) error {
	swarmd, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find swarmd, which is the agent's plugin: %w", err)
	}
	cfg.Swarmd, cfg.StateDir, cfg.Log = swarmd, filepath.Join(base.StateDir, "spire-agent"), base.Log.With("logger", "spire-agent")
	base.OpenIdentity = func(ctx context.Context, role identity.Role, name string) (identity.Provider, error) {
		cfg := *cfg
		cfg.Role = role
		return spire.OpenSource(ctx, cfg, identity.SourceConfig{Role: role, Name: name, Log: base.Log})
	}
	return nil
}

// atHost lets a node open its identity at an agent that runs on the host already, and explain what it waits for.
func atHost(base *node.Common) {
	base.OpenIdentity = func(ctx context.Context, role identity.Role, name string) (identity.Provider, error) {
		source, err := identity.OpenSource(ctx, identity.SourceConfig{
			Socket: base.SocketPath, Role: role, Name: name, Log: base.Log, Explain: spire.ExplainHost(role, name),
		})
		if err != nil {
			return nil, err // not a nil source, which would be a provider that is not nil
		}
		return source, nil
	}
}
