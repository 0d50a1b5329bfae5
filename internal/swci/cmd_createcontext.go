package swci

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/invited"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/userdirs"
)

const (
	apiPort     = "30304" // where an SN serves its API unless it is told otherwise
	servicePort = "443"   // where a proxy does for it
)

func createContext(ctx context.Context, s *Session, args Args) error {
	name := args.Value("NAME")
	if err := validContextName(name); err != nil {
		return err
	}
	if args.Has("ip") && args.Has("service") {
		return exit.New(exit.Usage, "create context NAME with service HOST, or with ip HOST", "an SN is named by ip or by service, not by both")
	}
	contexts, err := contextsOf(s)
	if err != nil {
		return err
	}
	old, err := contexts.Load(name)
	if err == nil && old.PID != 0 && old.up() {
		return exit.New(exit.Conflict, "choose another name", "context %q belongs to a local swarm that is up (process %d)", name, old.PID)
	}
	target, err := newTarget(s, args, name)
	if err != nil {
		return err
	}
	sn := target.SNs[0]
	target.Service = args.Has("service")
	target.calls.onWait = s.say
	swarm, err := s.probe(ctx, target, callWait)
	if err != nil {
		if target.agent != nil && !needsNoToken(target.agent) {
			err = errors.Join(err, contexts.dropAgent(target.Agent, s.Env.Getenv, s.say))
		}
		return err // What an agent has that joined is for the next try: the token was used up.
	}
	if target.SwarmID != "" && target.SwarmID != swarm.GetSwarmId() {
		return exit.New(exit.Conflict, "ask an operator for another: swarmctl invite swci", "the invitation is to swarm %s, and the SN at %s is of swarm %s", short(target.SwarmID), sn, short(swarm.GetSwarmId()))
	}
	if target.Name, target.SwarmID = name, swarm.GetSwarmId(); swarm.GetEpoch() != target.SwarmID {
		target.Epoch = swarm.GetEpoch()
	}
	if target.agent != nil {
		target.Identity = "" // the agent ends with this swarmctl: the next one starts it again
	}
	if err := contexts.Save(target); err != nil {
		return err
	}
	if err := contexts.dropAgent(old.Agent, s.Env.Getenv, s.say); err != nil {
		return err
	}
	return s.show(createdJSON{name, sn, target.SwarmID}, func() error {
		fmt.Fprintf(s.Env.Stderr, "context %s is swarm %s at %s\n", name, short(target.SwarmID), sn)
		return nil
	})
}

// newTarget is the swarm that a new context is to name: that of the SN which was named, or of the invitation.
func newTarget(s *Session, args Args, name string) (Context, error) {
	file := args.Opts.String("invite")
	if args.Value("HOST") == "" && file == "" {
		return Context{}, exit.New(exit.Usage, "create context NAME with ip HOST, or create context NAME --invite FILE", "HOST is missing")
	}
	var sn string
	if args.Value("HOST") != "" {
		port := apiPort
		if args.Has("service") {
			port = servicePort
		}
		var err error
		if sn, err = apiAddress(args.Value("HOST"), args.Value("PORT"), port); err != nil {
			return Context{}, err
		}
	}
	if file != "" {
		return invitedTarget(s, args.Opts, file, sn)
	}
	target, err := s.targetAt(args.Opts, sn)
	if err != nil {
		return target, err
	}
	line, err := agentLine(args.Opts)
	if err != nil || len(line) == 0 {
		return target, err
	}
	target.Invitation = ""
	return target, target.keep(name, line, s.Env.Getenv)
}

// invitedTarget is the swarm of an invitation, which it keeps for later commands; at sn if that is not empty.
func invitedTarget(s *Session, opts *cli.Context, file, sn string) (Context, error) {
	if line, err := agentLine(opts); err != nil || len(line) > 0 || opts.IsSet("identity") || opts.IsSet("cert") {
		return Context{}, exit.New(exit.Usage, "give one of the two", "--invite brings the identity, another option takes it from elsewhere")
	}
	i, err := invited.Read(file, s.Env.Stdin)
	if err != nil {
		return Context{}, &exit.Error{Status: exit.Usage, Err: err}
	}
	if _, ok := i.Of(identity.RoleSWCI); !ok {
		return Context{}, exit.New(exit.Usage, "ask an operator for another: swarmctl invite swci", "this invitation is for %s and not for an operator (swci)", i.For())
	}
	fingerprint, err := i.Fingerprint()
	if err != nil {
		return Context{}, err
	}
	s.say("joining by an invitation of " + i.For() + "; whoever made it saw the same fingerprint: " + fingerprint)
	base, err := userdirs.Of(s.Env.Getenv).User()
	if err != nil {
		return Context{}, err
	}
	target := Context{SwarmID: i.SwarmID, Invitation: filepath.Join(base, "swarmctl", "invitations", fingerprint), Identity: agentIdentity, TrustDomains: opts.StringSlice("trust-domain")}
	for _, known := range i.SNs {
		target.SNs = append(target.SNs, known.API.String())
	}
	if sn != "" {
		target.SNs = []string{sn}
	}
	if err := invited.Keep(target.Invitation, i); err != nil {
		return Context{}, err
	}
	target.agent, err = agentOfInvitation(target.Invitation, s.Env.Getenv)
	target.agentOptions = "invitation " + target.Invitation
	return target, err
}

// apiIsUp is what the original says of an SN that answers.
const apiIsUp = "API Server is UP!"

// apiAddress reads where an SN's API is. The port may be a word of its own, or stand behind the host.
func apiAddress(host, port, defaultPort string) (string, error) {
	if _, _, err := net.SplitHostPort(host); err == nil && port != "" {
		return "", exit.New(exit.Usage, "leave one out", "two ports are given: %.260s and %.80s", host, port)
	}
	sn, err := address.HostPort(host, first(port, defaultPort))
	if err != nil {
		return "", exit.New(exit.Usage, "give an address or a host name, and a port from 1 to 65535 if it is not "+defaultPort, "no SN's API can be at %.260q", strings.TrimSpace(host+" "+port))
	}
	return sn, nil
}

// targetAt is the SN at an address, of whatever swarm, and who asks it.
func (s *Session) targetAt(opts *cli.Context, sn string) (Context, error) {
	target, err := s.anyTarget(opts)
	if err == nil && target.Identity == "" {
		err = errNoIdentity()
	}
	target.Name, target.PID, target.SwarmID, target.Epoch, target.Env = "", 0, "", "", nil
	target.SNs = []string{sn}
	return target, err
}

// probe asks the SN of a target for its swarm, which may take so long besides getting an identity.
func (s *Session) probe(ctx context.Context, target Context, within time.Duration) (*swarmv1.GetSwarmResponse, error) {
	api, closeAPI, err := s.Connect(ctx, target)
	if err != nil {
		return nil, err
	}
	defer closeAPI()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	swarm, err := api.GetSwarm(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its swarm: %w", target.SNs[0], err)
	}
	return swarm, nil
}
