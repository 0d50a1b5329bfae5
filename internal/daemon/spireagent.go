package daemon

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/invited"
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
// spelling, and where a join token comes from.
func agentFlags() []cli.Flag {
	var flags []cli.Flag
	for _, o := range spire.AgentOptions() {
		flags = append(flags, agentFlag(o, !shownAgentOptions[o.Name], []string{spire.AgentVariable(o.Name)}))
	}
	for _, o := range spire.JoinOptions() {
		flags = append(flags, agentFlag(o, false, env(o.Name)))
	}
	return flags
}

func agentFlag(o spire.AgentOption, hidden bool, vars []string) cli.Flag {
	return cmdline.SPIREFlag(cli.StringFlag{Name: o.Name, Usage: o.Usage, Hidden: hidden, EnvVars: vars, Category: forAgent}, !o.Bool)
}

// withAgent lets a node open its identity at an agent that it starts in the directory that dir returns, or that another component runs
// there. It ends when the node closes the identity.
func withAgent(base *node.Common, cfg *spire.AgentConfig, dir func() string) error {
	swarmd, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find swarmd, which is the agent's plugin: %w", err)
	}
	cfg.Swarmd, cfg.Log = swarmd, base.Log.With("logger", "spire-agent")
	base.OpenIdentity = func(ctx context.Context, role identity.Role, name string) (identity.Provider, error) {
		return invited.Open(dir, func(agentDir string) (identity.Provider, error) {
			cfg := *cfg
			cfg.Role, cfg.StateDir = role, agentDir
			return spire.OpenSource(ctx, cfg, identity.SourceConfig{Role: role, Name: name, Prefix: base.SPIFFEPrefix, Log: base.Log})
		})
	}
	return nil
}

// atHost lets a node open its identity at an agent that runs on the host already, and explain what it waits for.
func atHost(base *node.Common) {
	base.OpenIdentity = func(ctx context.Context, role identity.Role, name string) (identity.Provider, error) {
		source, err := identity.OpenSource(ctx, identity.SourceConfig{
			Socket: base.SocketPath, Role: role, Name: name, Prefix: base.SPIFFEPrefix, Log: base.Log, Explain: spire.ExplainHost(role, name),
		})
		if err != nil {
			return nil, err // not a nil source, which would be a provider that is not nil
		}
		return source, nil
	}
}
