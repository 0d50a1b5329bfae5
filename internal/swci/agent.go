package swci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/invited"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/userdirs"
)

// agentWait is how long swarmctl waits for an agent that it starts: it joins, and learns of its entries seconds later.
const agentWait = time.Minute

// agentIdentity is what an identity from an agent that is started is called in a context.
const agentIdentity = "agent"

// agentHelp stands for the options of agentFlags that help does not list.
var agentHelp = "A SPIRE agent of swarmctl's own, which ends with the command, is started by -serverAddress or -config; every option of `spire-agent run` is taken and passed on. Its join token can be given by " + spire.AgentVariable("joinToken") + " too, which other users can't read as they can a command line."

// agentFlags are the options of a SPIRE agent that swarmctl starts: the same as a node's.
func agentFlags() []cli.Flag {
	var flags []cli.Flag
	for _, o := range spire.AgentOptions() {
		hidden := o.Name != "config" && o.Name != "serverAddress" && o.Name != "joinToken"
		flags = append(flags, agentFlag(o, "of a SPIRE agent to start: ", hidden))
	}
	for _, o := range spire.JoinOptions() {
		flags = append(flags, agentFlag(o, "", false))
	}
	return flags
}

func agentFlag(o spire.AgentOption, prefix string, hidden bool) cli.Flag {
	return cmdline.SPIREFlag(cli.StringFlag{Name: o.Name, Usage: prefix + o.Usage, Hidden: hidden}, !o.Bool)
}

// visible leaves out hidden options.
func visible(flags []cli.Flag) []cli.Flag {
	return slices.DeleteFunc(slices.Clone(flags), func(f cli.Flag) bool {
		v, ok := f.(cli.VisibleFlag)
		return ok && !v.IsVisible()
	})
}

// agentLine are the options of a SPIRE agent to start that a command line has, name to value.
func agentLine(opts *cli.Context) (map[string]string, error) {
	line := map[string]string{}
	var some string
	for _, o := range append(spire.AgentOptions(), spire.JoinOptions()...) {
		if opts.IsSet(o.Name) {
			line[o.Name], some = fmt.Sprint(opts.Value(o.Name)), o.Name
		}
	}
	for _, other := range append([]string{"identity"}, certOptions...) {
		if some != "" && opts.IsSet(other) {
			return nil, exit.New(exit.Usage, "give one of the two", "-%s starts a SPIRE agent, --%s takes the identity from elsewhere", some, other)
		}
	}
	return line, nil
}

// parseAgent reads the options of a SPIRE agent to start; it is nil without any. A join token may come from the environment.
func parseAgent(given map[string]string, getenv func(string) string) (*spire.AgentConfig, error) {
	if len(given) > 0 && given["joinToken"] == "" && given["gen-join-token"] != "true" {
		if token := getenv(spire.AgentVariable("joinToken")); token != "" {
			given = maps.Clone(given)
			given["joinToken"] = token
		}
	}
	server, _ := userdirs.Of(getenv).SPIREServer() // without a home there is no server in it
	cfg, err := spire.ParseAgent(given, server)
	if err != nil {
		return nil, &exit.Error{Status: exit.Usage, Err: err}
	}
	if cfg != nil && cfg.GenJoinToken != nil {
		cfg.GenJoinToken.Exec = component.LocalExec() // for --spire-docker-name
	}
	return cfg, nil
}

// agentOfInvitation is the agent that an invitation brings, which is kept in dir: that of the host's components where they were invited
// with it.
func agentOfInvitation(dir string, getenv func(string) string) (*spire.AgentConfig, error) {
	i, err := invited.Kept(dir)
	if err != nil {
		return nil, &exit.Error{Status: exit.Failed, Err: err, Hint: "create the context again with another invitation"}
	}
	if i == nil {
		return nil, exit.New(exit.Failed, "create the context again with another invitation: swarmctl create context NAME --invite FILE", "the invitation of this context is gone from %s", dir)
	}
	nodes, _ := userdirs.Of(getenv).Nodes() // without a home there are none
	return &spire.AgentConfig{
		ServerAddress: i.Server.Host, ServerPort: i.Server.Port, TrustDomain: i.TrustDomain, GenJoinToken: &spire.TokenSource{Invitation: i}, Shared: true,
		StateDir: invited.AgentDir(dir, i, engine.Scope(getenv), nodes),
	}, nil
}

// openAgent starts the agent that target asks for and waits for an identity of it. Closing that ends the agent.
func openAgent(ctx context.Context, env Env, target Context, prefix identity.Prefix) (identity.Provider, error) {
	base, err := userdirs.Of(env.Getenv).User()
	if err != nil {
		return nil, err
	}
	cfg := *target.agent
	cfg.Role, cfg.Log = identity.RoleSWCI, slog.New(notices{env.Stderr})
	if cfg.StateDir == "" {
		cfg.StateDir = filepath.Join(base, "swarmctl", "spire-agent")
	}
	if self, err := os.Executable(); err == nil {
		swarmd := filepath.Join(filepath.Dir(self), "swarmd")
		if _, err := os.Stat(swarmd); err == nil {
			cfg.Swarmd = swarmd // it is the plugin that knows swarmctl
		}
	}
	wait, cancel := context.WithTimeout(ctx, agentWait)
	defer cancel()
	source, err := spire.OpenSource(wait, cfg, identity.SourceConfig{Role: identity.RoleSWCI, Else: identity.RoleAudit, Prefix: prefix, Log: slog.New(notices{env.Stderr})})
	if err != nil {
		if again := target.rejoin(env.Getenv); again != nil {
			return nil, again
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, exit.New(exit.Unreachable, "the lines above say what it waited for", "no identity from the SPIRE agent within %v", agentWait)
	case err != nil:
		return nil, &exit.Error{Status: exit.Unreachable, Err: fmt.Errorf("%s", text.Line(err.Error()))}
	}
	return source, nil
}

// notices shows people what an agent waits for and complains of, and nothing less.
type notices struct{ w io.Writer }

func (n notices) Enabled(context.Context, slog.Level) bool { return true }
func (n notices) WithAttrs([]slog.Attr) slog.Handler       { return n }
func (n notices) WithGroup(string) slog.Handler            { return n }

func (n notices) Handle(_ context.Context, r slog.Record) error {
	var why string
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "why" || a.Key == "error" {
			why = ": " + a.Value.String()
		}
		return true
	})
	// That a node waits is information to it; to somebody at a terminal it is all that happens.
	if r.Level < slog.LevelWarn && !strings.HasPrefix(r.Message, "waiting") && !strings.HasPrefix(r.Message, "another process") {
		return nil
	}
	_, err := fmt.Fprintf(n.w, "swarmctl: %s\n", text.Line(r.Message+why))
	return err
}
