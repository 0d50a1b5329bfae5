package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/invitation"
	"github.com/swarmd/swarmd/internal/invited"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/userdirs"
	"github.com/swarmd/swarmd/node"
)

const inviteFlag = "invite"

// guest is what an invitation brings to this command.
type guest struct {
	invitation *invitation.Invitation // nil: none
	kept       string                 // state directory in which an earlier start has kept it; "": it was given now
	host       string                 // under which others reach this node, if that was found out; "": it was said
}

// invitation is that of this command, nil without one.
func (e Env) invitation() *invitation.Invitation {
	if e.invite == nil {
		return nil
	}
	return e.invite.invitation
}

// Options that say something else than an invitation does. What tells who the node is must not differ: nothing else than the invitation's
// word would be let in. Where things are a host may know better, so what is given explicitly wins. One source of the identity is enough.
var (
	ownIdentity = []string{
		"identity", "socket-path", "cert", "key", "cacert", "capath", "config", "joinToken", "gen-join-token", "join-file", "spire-docker-name", "spire-server-socket",
		"ssh-user", "ssh-port", "trustBundle", "trustBundleUrl", "trustBundleFormat", "insecureBootstrap",
	}
	ownSNs = map[identity.Role][]string{
		identity.RoleSL: {"sn-ip", "sn-api-service"}, identity.RoleSWOP: {"sn-ip", "sn-api-service"}, identity.RoleSN: {"join", "sentinel-ip", "sentinel-api-service"},
	}
)

// withInvitation adds the options that an invitation stands for: the one that --invite names, or that which a component has kept from
// an earlier start, where nothing else says who it is.
func withInvitation(ctx context.Context, app *cli.App, args []string, e Env) ([]string, error) {
	cmd, role := invitable(app, args)
	if cmd == nil || e.Getenv(start.InContainer) != "" {
		return args, nil
	}
	o := options{cmd, args, e}
	g, err := o.find(role)
	if err != nil || g == nil {
		return args, err
	}
	node, ok := g.invitation.Of(role)
	if !ok {
		word := string(role) + "/NAME"
		return nil, fmt.Errorf("this invitation is for %s and not for an %s: start that with it, or ask an operator for another: swarmctl invite %s", g.invitation.For(), naming.RoleOf(string(role)).Title, word)
	}
	if args, err = o.fill(ctx, g, node); err != nil {
		return nil, err
	}
	*e.invite = *g
	return args, nil
}

// invitable is the command of args if that takes invitations, and the role that it starts.
func invitable(app *cli.App, args []string) (*cli.Command, identity.Role) {
	if len(args) < 2 {
		return nil, ""
	}
	i := slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == args[1] })
	if i < 0 || slices.Contains(args[2:], "--help") {
		return nil, ""
	}
	if _, takes := flagTable(app.Commands[i])[inviteFlag]; !takes {
		return nil, ""
	}
	return app.Commands[i], identity.Role(strings.TrimPrefix(args[1], "run-"))
}

// options are those of a command as it was given: args has them normalised.
type options struct {
	cmd  *cli.Command
	args []string
	env  Env
}

// value is the last one that was given for an option, "" for none.
func (o options) value(name string) string {
	f := o.flag(name)
	if f == nil {
		return ""
	}
	for _, a := range slices.Backward(o.args[2:]) {
		for _, n := range f.Names() {
			if v, ok := strings.CutPrefix(a, "--"+n+"="); ok {
				return v
			}
		}
	}
	if doc, ok := f.(cli.DocGenerationFlag); ok {
		for _, v := range doc.GetEnvVars() {
			if text := o.env.Getenv(v); text != "" {
				return text
			}
		}
	}
	return ""
}

// given reports whether one of these options was given, and returns the first of them.
func (o options) given(names ...string) (string, bool) {
	for _, n := range names {
		if f := o.flag(n); f != nil && given(f, o.args[2:], o.env) {
			return n, true
		}
	}
	return "", false
}

func (o options) flag(name string) cli.Flag {
	i := slices.IndexFunc(o.cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil
	}
	return o.cmd.Flags[i]
}

// find returns the invitation that is meant; nil: none is.
func (o options) find(role identity.Role) (*guest, error) {
	if file := o.value(inviteFlag); file != "" {
		i, err := invited.Read(file, o.env.Stdin)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; a node that has joined with it goes on without --invite", err)
		}
		return &guest{invitation: i}, err
	}
	if _, says := o.given(append([]string{"serverAddress"}, ownIdentity...)...); says || o.env.Getenv("SPIFFE_ENDPOINT_SOCKET") != "" {
		return nil, nil //nolint:nilnil // the node's identity comes from elsewhere
	}
	if r, err := start.Runtime("runtime", o.value("runtime"), start.Process); err != nil || r != start.Process {
		return nil, nil //nolint:nilnil,nilerr // the agent is in the container; a bad runtime is said later
	}
	dir, err := o.keptIn(role)
	if err != nil || dir == "" {
		return nil, err
	}
	i, err := invited.Kept(dir)
	if i == nil || err != nil {
		return nil, err
	}
	return &guest{invitation: i, kept: dir}, nil
}

// keptIn is the state directory in which this component may have kept an invitation, "" for none.
func (o options) keptIn(role identity.Role) (string, error) {
	if dir := o.value("state-dir"); dir != "" {
		return dir, nil
	}
	nodes, err := userdirs.Of(o.env.Getenv).Nodes()
	if err != nil {
		return "", nil //nolint:nilerr // nobody can have kept one
	}
	if name := o.value("name"); name != "" {
		return filepath.Join(nodes, name), nil
	}
	return onlyKept(nodes, role)
}

// onlyKept is the only state directory among nodes that has kept an invitation for a role, "" if there is none.
func onlyKept(nodes string, role identity.Role) (string, error) {
	all := invited.Beside(nodes, role)
	switch len(all) {
	case 0:
		return "", nil
	case 1:
		return all[0], nil
	}
	var names []string
	for _, d := range all {
		names = append(names, filepath.Base(d))
	}
	return "", fmt.Errorf("this host was invited for several nodes of role %s: say which one this is: --name %s", role, strings.Join(names, ", or --name "))
}

// fill adds what the invitation says and the command does not.
func (o options) fill(ctx context.Context, g *guest, n invitation.Node) ([]string, error) {
	i := g.invitation
	if name, given := o.given(ownIdentity...); given {
		return nil, fmt.Errorf("--invite brings the node's identity, --%s takes it from elsewhere: give one of the two", name)
	}
	if _, given := o.given("sentinel"); given {
		return nil, errors.New("--sentinel founds a swarm, an invited SN joins one: leave out --sentinel or --invite")
	}
	out := slices.Clone(o.args)
	add := func(name, value string) { out = append(out, "--"+name+"="+value) }
	for _, fixed := range [][2]string{{"name", n.Name}, {"trustDomain", i.TrustDomain}, {"swarm-id", i.SwarmID}, {"spiffe-prefix", "/swarm"}} {
		switch said := o.value(fixed[0]); said {
		case fixed[1]:
		case "":
			add(fixed[0], fixed[1])
		default:
			return nil, fmt.Errorf("--%s says %s and the invitation %s, and nobody else is let in with it: leave --%s out, or ask an operator for another invitation", fixed[0], said, fixed[1], fixed[0])
		}
	}
	if _, given := o.given("serverAddress"); !given {
		add("serverAddress", i.Server.Host)
		if _, given := o.given("serverPort"); !given {
			add("serverPort", strconv.Itoa(i.Server.Port))
		}
	}
	if _, given := o.given(ownSNs[n.Role]...); !given {
		for _, sn := range i.SNs {
			if n.Role == identity.RoleSN {
				add("join", sn.Files.String())
			} else {
				add("sn-ip", sn.API.String())
			}
		}
	}
	if _, given := o.given("model-dir"); !given && o.value("model-program") != "" {
		add("model-dir", ".") // where the command is typed: an invited host needs nothing else
	}
	if o.value("state-dir") == "" && g.kept != "" {
		add("state-dir", g.kept)
	}
	if _, given := o.given("host-ip", "sl-fs-service", "sn-p2p-service"); !given {
		host, err := address.Toward(ctx, i.SNs[0].API.String())
		if err != nil {
			return nil, fmt.Errorf("%w; give --host-ip, the address under which other nodes reach this one", err)
		}
		g.host = host
		add("host-ip", host)
	}
	return out, nil
}

// takeInvitation tells of the invitation by which a node joins, and keeps it, so that the next start needs none. In a container the
// launcher has the token, and the agent there keeps what it gets for it.
func takeInvitation(o *start.Node, e Env, runtime string, cfg *node.Common) error {
	i := o.Invitation
	if i == nil {
		return nil
	}
	fingerprint, err := i.Fingerprint()
	if err != nil {
		return err
	}
	if e.invite.kept != "" {
		cfg.Log.Info("going on with the invitation that this node was started with", "for", i.For(), "fingerprint", fingerprint)
	} else {
		cfg.Log.Info("joining by an invitation; whoever made it saw the same fingerprint", "fingerprint", fingerprint, "for", i.For(), "swarm_id", i.SwarmID, "sns", len(i.SNs))
	}
	if e.invite.host != "" {
		cfg.Log.Info("other nodes are told this host's address towards the SNs; if they can't reach it there, --host-ip says where", "host_ip", e.invite.host)
	}
	if runtime != start.Process || e.invite.kept != "" || e.dry {
		return nil
	}
	return invited.Keep(cfg.StateDir, i)
}
