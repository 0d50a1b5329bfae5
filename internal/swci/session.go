package swci

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/userdirs"
)

// Connect opens the API of the swarm that target names; each call is bounded in time. done is never nil; without error it must be called.
type Connect func(ctx context.Context, target Context) (api client.Operator, done func(), err error)

// Session is what lasts between the commands of one shell or script; a one-shot command has one of its own.
type Session struct {
	Env     Env
	Grammar *Grammar
	Connect Connect
	// Identify opens swarmctl's own identity where no SN is asked.
	Identify Identify
	Signals  *Signals // nil: Ctrl-C is left alone
	JSON     bool     // print JSON, not tables

	argv   []string    // the command line
	own    *identities // nil: identities are not kept
	prompt *prompt     // of run-swci; nil for one command
	formed bool        // the line says in which form it wants its answer
	fixed  *Context    // the swarm that commands are about; nil: options, context and environment say it
}

// withAPI calls fn with an open API of the swarm that the options, the current context or the environment name.
func (s *Session) withAPI(ctx context.Context, opts *cli.Context, fn func(client.Operator) error) error {
	target, err := s.target(opts)
	if err != nil {
		return err
	}
	return onSwarm(ctx, s, target, fn)
}

// onSwarm is withAPI for a swarm that is known.
func onSwarm(ctx context.Context, s *Session, target Context, fn func(client.Operator) error) error {
	target.calls.onWait, target.calls.onFollow = s.say, s.follow(target)
	api, closeAPI, err := s.Connect(ctx, target)
	if err != nil {
		return err
	}
	defer closeAPI()
	return apiError(fn(api))
}

// follow keeps a later epoch of a context's swarm in the context, and says that it is followed.
func (s *Session) follow(target Context) func(epoch.Pin) {
	if target.Name == "" || target.SwarmID == "" {
		return nil
	}
	return func(p epoch.Pin) {
		s.say(fmt.Sprintf("the swarm was recovered by an operator; context %s follows its epoch %d", target.Name, p.Number()))
		contexts, err := contextsOf(s)
		var kept Context
		if err == nil {
			kept, err = contexts.Load(target.Name)
		}
		if err == nil && kept.SwarmID == p.SwarmID {
			kept.Epoch = p.String()
			err = contexts.Save(kept)
		}
		if err != nil {
			s.say(fmt.Sprintf("could not keep the epoch: %v", err))
		}
	}
}

// say tells the user what a call waits for.
func (s *Session) say(why string) { fmt.Fprintf(s.Env.Stderr, "swarmctl: %s\n", text.Line(why)) }

// target decides which swarm is meant: the context named or current, then each part overridden by its option.
func (s *Session) target(opts *cli.Context) (Context, error) {
	if s.fixed != nil {
		return *s.fixed, nil
	}
	target, err := s.anyTarget(opts)
	if err == nil && len(target.SNs) == 0 {
		err = errNoSN()
	}
	if err == nil && target.Identity == "" {
		err = errNoIdentity()
	}
	return target, err
}

func errNoSN() error {
	return exit.New(exit.Usage, "swarmctl create context NAME with ip HOST, then swarmctl switch context NAME; or give --sn HOST:PORT", "no SN is known")
}

func errNoIdentity() error {
	return exit.New(exit.Usage, "give --identity embedded=DIR, --cert and --key, or -serverAddress and -genJoinToken of a SPIRE server, or set SPIFFE_ENDPOINT_SOCKET", "no identity is known")
}

// namedContext is the context that the options or the environment name; "" for none. What the user chose at the prompt comes before
// the environment.
func (s *Session) namedContext(opts *cli.Context) string {
	if s.prompt != nil && s.prompt.switched.Load() {
		return opts.String("context")
	}
	return first(opts.String("context"), s.Env.Getenv("SWARM_CONTEXT"))
}

// anyTarget is target for those who can do without parts of it.
func (s *Session) anyTarget(opts *cli.Context) (Context, error) {
	contexts, err := contextsOf(s)
	if err != nil {
		return Context{}, err
	}
	name := first(s.namedContext(opts), contexts.Current())
	var target Context
	if name != "" && (opts.IsSet("context") || !opts.IsSet("sn")) {
		if target, err = contexts.Load(name); err != nil {
			return Context{}, err
		}
		if target.PID != 0 && !target.up() {
			return Context{}, exit.New(exit.Unreachable, "start another: swarmctl local up", "the local swarm of context %q is gone (process %d)", name, target.PID)
		}
	}
	if opts.IsSet("sn") {
		target.SNs, target.SwarmID, target.Epoch = withAPIPort(opts.StringSlice("sn")), "", ""
	}
	if opts.IsSet("trust-domain") {
		target.TrustDomains = opts.StringSlice("trust-domain")
	}
	target.SPIFFEPrefix = first(spiffePrefix(opts, s.Env.Getenv), target.SPIFFEPrefix)
	files, ambient, err := fileIdentity(opts, s.Env.Getenv)
	if err != nil {
		return Context{}, err
	}
	line, err := agentLine(opts)
	if err != nil {
		return Context{}, err
	}
	switch kept := target.Agent; {
	case kept != nil && first(opts.String("identity"), files) == "" && !kept.another(line):
		return target, target.use(line, s.Env.Getenv)
	case len(line) > 0:
		target.Agent, target.Identity, target.agentOptions = nil, agentIdentity, fmt.Sprint(line)
		if target.agent, err = parseAgent(line, s.Env.Getenv); err != nil {
			return target, err
		}
		return target, target.shareToken(line, s.Env.Getenv)
	case kept != nil:
		target.Agent = nil
	}
	if target.Invitation != "" && first(opts.String("identity"), files) == "" {
		target.agent, err = agentOfInvitation(target.Invitation, s.Env.Getenv)
		target.Identity, target.agentOptions = agentIdentity, "invitation "+target.Invitation
		return target, err
	}
	target.Identity = first(opts.String("identity"), files, target.Identity, s.Env.Getenv("SWARM_IDENTITY"), ambient, s.Env.Getenv("SPIFFE_ENDPOINT_SOCKET"))
	return target, nil
}

// spiffePrefix is what stands before the role in SPIFFE IDs, as an option or the environment says; "" if neither does.
func spiffePrefix(opts *cli.Context, getenv func(string) string) string {
	return first(opts.String("spiffe-prefix"), getenv(cmdline.Variable("spiffe-prefix")))
}

// withAPIPort gives SNs that are named without a port the API's own.
func withAPIPort(sns []string) []string {
	var out []string
	for _, sn := range sns {
		bare := strings.Trim(sn, "[]")
		if _, err := netip.ParseAddr(bare); err == nil || sn != "" && !strings.Contains(sn, ":") {
			sn = net.JoinHostPort(bare, apiPort)
		}
		out = append(out, sn)
	}
	return out
}

// identitySocket returns the Workload API address of swarmctl's own identity. A bare "embedded" is the folder in which
// swarmd run-authority puts its sockets when it is not told another.
func identitySocket(identity string, getenv func(string) string) (string, error) {
	if identity == "spiffe" {
		identity = getenv("SPIFFE_ENDPOINT_SOCKET")
	}
	if identity == "embedded" {
		dir, err := userdirs.Of(getenv).Authority()
		if err != nil {
			return "", err
		}
		identity = "embedded=" + dir
	}
	if dir, ok := strings.CutPrefix(identity, "embedded="); ok {
		return filepath.Join(dir, "swci.sock"), nil
	}
	if strings.HasPrefix(identity, "/") || strings.HasPrefix(identity, "unix:") {
		return identity, nil
	}
	return "", exit.New(exit.Usage, "use embedded, embedded=DIR or the path of a Workload API socket", "identity %q is not known", identity)
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
