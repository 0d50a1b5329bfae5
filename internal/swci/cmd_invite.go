package swci

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/claim"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/invitation"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/userdirs"
)

const (
	inviteLife  = 24 * time.Hour
	maxLife     = 30 * 24 * time.Hour
	leastLife   = time.Minute
	clockFormat = "2006-01-02 15:04 MST"
)

func inviteCommands() []*Command {
	return []*Command{{
		Pattern: "invite NODE...", Group: "Nodes",
		Summary: "Print an invitation: one line by which a new host joins",
		Details: "Run it on the SPIRE server's machine. NODE is sl/NAME, sn/NAME, swop/NAME, swci or swci/NAME; several NODEs are components of one host. Makes the registration entry of each over the server's API socket, unless it exists, and prints one line, which you carry to that host: join token, trust bundle, addresses of SPIRE server and SNs, swarm ID, and for an SN of a swarm whose operators admit SNs the admission, which is a signed order that the ledger records. \"swarmd run-sl --invite FILE\" (run-sn, run-swop; \"create context NAME --invite FILE\") needs nothing else. A SWOP's SLs get their identity by the same line, unless its profile names others: they share the SPIFFE ID of SLs without a name.\n\nThe line is a secret until it is used: one host can use it, once, before it expires. Whoever carries it is trusted; both ends print a fingerprint of ten characters to compare. Without a context or an identity a SPIRE agent of swarmctl's own is started by that server.",
		Example: "invite sl/hospital-d --expires 24h --out hospital-d.invite",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "expires", Value: inviteLife, Usage: "`TIME` in which it can be used, 720h at most"},
			&cli.StringFlag{Name: "server", Usage: "`HOST[:PORT]` under which the new host reaches the SPIRE server; this machine's address towards the SNs if not given"},
			&cli.StringFlag{Name: "server-socket", Usage: "the SPIRE server's API `SOCKET`; that of run-spire-server, else " + spire.DefaultServerSocket + ", if not given"},
			&cli.StringFlag{Name: "out", Value: "-", Usage: "`FILE` to write, for its owner alone, - for standard output"},
			&cli.BoolFlag{Name: "force", Usage: "write over a file that exists"},
		},
		JSON: invitationJSON{},
		Run:  invite,
	}}
}

// invitationJSON is `invite NODE... -o json`.
type invitationJSON struct {
	Invitation  string   `json:"invitation" doc:"the line; a secret until it is used; empty with --out"`
	Fingerprint string   `json:"fingerprint" doc:"ten characters that the invited host prints too"`
	Expires     string   `json:"expires" doc:"until when it can be used; RFC 3339, UTC"`
	SPIFFEIDs   []string `json:"spiffe_ids" doc:"of those who are invited, in their order"`
	Made        []string `json:"made" doc:"those of them whose registration entry was made now"`
	Server      string   `json:"server" doc:"of the SPIRE server, HOST:PORT"`
	SNs         []string `json:"sns" doc:"API addresses, HOST:PORT"`
	SwarmID     string   `json:"swarm_id" doc:"of the swarm"`
	Admits      uint64   `json:"admits" doc:"number by which the ledger names the invitation that admits the SN; 0: no SN is invited, or nobody admits SNs"`
	AllowPeers  []string `json:"allow_peers" doc:"options that SLs need which list those whom they merge with; empty unless an SL is invited"`
}

// inviter makes one invitation.
type inviter struct {
	s      *Session
	opts   *cli.Context
	server *spire.Server
	bundle []byte // PEM
	made   []string
	notes  []string
	i      invitation.Invitation
	number uint64 // of the SN's invitation in the swarm; 0: the line admits none
}

func invite(ctx context.Context, s *Session, args Args) error {
	if len(args.Rest) == 0 {
		return exit.New(exit.Usage, "name them, such as sl/hospital-d", "nobody is named who is to be invited")
	}
	v := &inviter{s: s, opts: args.Opts}
	for _, word := range args.Rest {
		role, name, err := spire.ParseNode(word)
		if err != nil {
			return &exit.Error{Status: exit.Usage, Err: err}
		}
		if role == identity.RoleAudit {
			return exit.New(exit.Usage, "give the auditor a join token and the bundle: swarmd spire-token --create "+word, "auditors are not invited, as they run no node")
		}
		v.i.Nodes = append(v.i.Nodes, invitation.Node{Role: role, Name: name})
	}
	if err := v.i.CheckNodes(); err != nil {
		return exit.New(exit.Usage, "", "invite: %w", err)
	}
	if out := args.Opts.String("out"); out != "-" && !args.Opts.Bool("force") {
		if _, err := os.Lstat(out); err == nil { // before anything is made
			return fileTaken(out)
		}
	}
	life := args.Opts.Duration("expires")
	if life < leastLife || life > maxLife {
		return exit.New(exit.Usage, "give a time from 1m to 720h, such as 24h", "--expires %v is not valid", life)
	}
	dir, _ := userdirs.Of(s.Env.Getenv).SPIREServer() // without a home there is no server in it
	socket := first(args.Opts.String("server-socket"), spire.ServerSocket(dir))
	var err error
	if v.server, err = spire.OpenServer(socket); err != nil {
		return exit.New(exit.Unreachable, "run this on the SPIRE server's machine as the user who runs the server, or name its socket with --server-socket; a server in a container has it in its volume: docker volume inspect swarmd-NAME", "%w", err)
	}
	defer v.server.Close()
	if v.bundle, v.i.TrustDomain, err = v.server.Bundle(ctx); err != nil {
		return exit.New(exit.Unreachable, "", "%w", err)
	}
	target, err := v.target(ctx)
	if err != nil {
		return err
	}
	if prefix := target.SPIFFEPrefix; prefix != "" && prefix != "/swarm" {
		return exit.New(exit.Usage, "make the entry by hand, and give its host a token: swarmd spire-token", "invitations are for SPIFFE IDs that begin with /swarm, and those of this swarm begin with %s", prefix)
	}
	return onSwarm(ctx, s, target, func(api client.Operator) error {
		for _, step := range []func() error{
			func() error { return v.lookAtSwarm(ctx, api) }, func() error { return v.findServer(ctx) }, func() error { return v.setEnd(life) },
			func() error { return v.makeEntries(ctx) }, func() error { return v.admit(ctx, api) }, v.print,
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

// lookAtSwarm asks the swarm who it is, where its SNs are, and whether it admits SNs.
func (v *inviter) lookAtSwarm(ctx context.Context, api client.Operator) error {
	swarm, err := api.GetSwarm(ctx)
	if err != nil {
		return fmt.Errorf("ask the swarm who it is: %w", err)
	}
	list, err := api.ListNodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	v.i.SwarmID = swarm.GetSwarmId()
	if v.i.SNs, err = servingSNs(list.GetNodes(), swarm.GetLeader()); err != nil {
		return err
	}
	if _, sn := v.i.Of(identity.RoleSN); sn && swarm.GetAdmit() != "" {
		v.i.Admission = make([]byte, claim.SecretSize)
		_, _ = rand.Read(v.i.Admission) // never fails
	}
	v.noteDomains(list.GetNodes())
	return v.checkNames(list.GetNodes())
}

// admit has the swarm admit whoever claims the invitation first as the SN that is invited, where operators admit SNs. The swarm gets the
// public key of the secret in the line.
func (v *inviter) admit(ctx context.Context, api client.Operator) error {
	if v.i.Admission == nil {
		return nil
	}
	n, _ := v.i.Of(identity.RoleSN)
	var err error
	if v.number, err = api.InviteNode(ctx, n.Name, v.i.SPIFFEID(n), claim.KeyOf(v.i.Admission), v.i.Expires.UnixMilli()); err != nil {
		return fmt.Errorf("have the swarm admit %s: %w", n, err)
	}
	return nil
}

// noteDomains tells of a swarm whose SNs have their identities from another trust domain than the SPIRE server's.
func (v *inviter) noteDomains(nodes []*swarmv1.Node) {
	for _, n := range nodes {
		id, err := identity.ParseIDString(n.GetSpiffeId())
		if n.GetRole() != naming.RoleSN || err != nil {
			continue
		}
		if domain := id.SPIFFE().TrustDomain().Name(); domain != v.i.TrustDomain {
			v.notes = append(v.notes, fmt.Sprintf("the SPIRE server is of trust domain %s and SN %s of %s: those nodes need --trust-domain %s, the new one --trust-domain %s, and the servers must federate",
				v.i.TrustDomain, n.GetName(), domain, v.i.TrustDomain, domain))
			return
		}
	}
}

// target is the swarm that is meant. Whoever may open the server's socket needs no other identity.
func (v *inviter) target(ctx context.Context) (Context, error) {
	target, err := v.s.anyTarget(v.opts)
	if err != nil {
		return target, err
	}
	if len(target.SNs) == 0 {
		return target, errNoSN()
	}
	if target.Identity != "" || target.agent != nil {
		return target, nil
	}
	port := spire.PortOf(v.server.Socket())
	at := []string{v.opts.String("server")}
	if at[0] == "" {
		own, _ := address.Toward(ctx, target.SNs[0]) // else it is tried at localhost
		at = []string{own, "127.0.0.1"}
	}
	var tried error
	for _, host := range at {
		server, err := address.HostPort(host, strconv.Itoa(port))
		if err == nil {
			err = spire.CheckServer(ctx, server, v.bundle)
		}
		if err != nil {
			tried = err
			continue
		}
		host, port, _ := net.SplitHostPort(server)
		n, _ := strconv.Atoi(port)
		target.agent = &spire.AgentConfig{ServerAddress: host, ServerPort: n, GenJoinToken: &spire.TokenSource{Socket: v.server.Socket()}}
		target.Identity, target.agentOptions = agentIdentity, "invite "+server
		return target, nil
	}
	return target, v.serverError(tried)
}

// servingSNs are where an invited host finds SNs: the leader first, then by name.
func servingSNs(nodes []*swarmv1.Node, leader string) (sns []invitation.SN, err error) {
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b *swarmv1.Node) int {
		switch leader {
		case a.GetName():
			return -1
		case b.GetName():
			return 1
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	for _, n := range nodes {
		if n.GetRole() != naming.RoleSN || n.GetBanned() || !n.GetLive() || len(sns) == invitation.MaxSNs {
			continue
		}
		api := address.Join(n.GetHost(), int(n.GetApiPort()))
		if n.GetApiService() != "" {
			api = n.GetApiService()
		}
		host, port, err := net.SplitHostPort(api)
		if err != nil {
			continue
		}
		number, _ := strconv.Atoi(port) // a bad one is none, as are addresses that nobody could dial: one SN must not stop all invitations
		sn := invitation.SN{API: invitation.Address{Host: host, Port: number}, Files: invitation.Address{Host: n.GetHost(), Port: int(n.GetFsPort())}}
		if sn.API.Check() == nil && sn.Files.Check() == nil {
			sns = append(sns, sn)
		}
	}
	if len(sns) == 0 {
		return nil, exit.New(exit.Unreachable, "see: swarmctl list nodes", "no SN of the swarm is alive, so nobody could join")
	}
	return sns, nil
}

// checkNames looks whether those who are invited can register.
func (v *inviter) checkNames(nodes []*swarmv1.Node) error {
	for _, n := range v.i.Nodes {
		for _, other := range nodes {
			switch {
			case n.Name == "" || other.GetName() != n.Name:
			case other.GetRole() != string(n.Role):
				return exit.New(exit.Conflict, "choose another name", "%s can't join: the swarm has an %s of that name", n, naming.RoleOf(other.GetRole()).Title)
			default:
				v.notes = append(v.notes, fmt.Sprintf("%s is a node of the swarm already; on a host that has not its state it is let in after: swarmctl forget node %s", n, n.Name))
			}
		}
	}
	return nil
}

// findServer decides under which address the new host reaches the SPIRE server, and tries it.
func (v *inviter) findServer(ctx context.Context) error {
	given := v.opts.String("server")
	if given == "" {
		own, err := address.Toward(ctx, v.i.SNs[0].API.String())
		if err != nil {
			return v.serverError(err)
		}
		given = own
	}
	server, err := address.HostPort(given, strconv.Itoa(spire.PortOf(v.server.Socket())))
	if err != nil {
		return exit.New(exit.Usage, "give HOST or HOST:PORT", "--server %.260s is no address", given)
	}
	if err := spire.CheckServer(ctx, server, v.bundle); err != nil {
		return v.serverError(err)
	}
	host, port, _ := net.SplitHostPort(server)
	v.i.Server.Host = host
	v.i.Server.Port, err = strconv.Atoi(port)
	return err
}

func (v *inviter) serverError(err error) error {
	return exit.New(exit.Unreachable, "give --server HOST[:PORT], under which the new host reaches the SPIRE server", "%w", err)
}

// setEnd decides when the invitation ends: as asked, but not after the server has gone on with a CA that its bundle of now lacks.
func (v *inviter) setEnd(life time.Duration) error {
	now := v.s.Env.Now()
	end := now.Add(life)
	until, err := spire.TrustedUntil(v.bundle)
	if err != nil {
		return err
	}
	if until.Before(end) {
		if until.Sub(now) < leastLife {
			return exit.New(exit.Failed, "try again in some minutes", "the SPIRE server is about to go on with another CA, which the invitation would not know")
		}
		v.notes = append(v.notes, "it ends before --expires, when the SPIRE server goes on with another CA; a longer ca_ttl in its configuration lets invitations live longer")
		end = until
	}
	v.i.Expires = end.UTC().Truncate(time.Second)
	return nil
}

// makeEntries makes the registration entries and the join token.
func (v *inviter) makeEntries(ctx context.Context) error {
	var err error
	if v.i.Bundle, err = spire.BundleDER(v.bundle); err != nil {
		return err
	}
	v.i.Token = "not-made-yet"
	if err := v.i.Check(); err != nil { // before anything is changed
		return exit.New(exit.Failed, "", "make invitation: %w", err)
	}
	var agents []string
	for _, n := range v.i.Nodes {
		path, made := spire.AgentPath(n.Role, ""), false
		if n.Name != "" {
			if path, made, err = v.server.EnsureEntry(ctx, n.Role, n.Name); err != nil {
				return exit.New(exit.Failed, "", "%w", err)
			}
		}
		if made {
			v.made = append(v.made, v.i.SPIFFEID(n))
		}
		agents = append(agents, path)
		if n.Role == identity.RoleSWOP { // its SLs ask the same agent; how many there are is for its profile to say
			agents = append(agents, spire.AgentPath(identity.RoleSL, ""))
		}
	}
	life := v.i.Expires.Sub(v.s.Env.Now())
	if v.i.Token, err = v.server.JoinToken(ctx, agents, life); err != nil {
		return exit.New(exit.Failed, "", "%w", err)
	}
	return nil
}

// lost is the error of a line that could not be written, and says how to take back the invitation that the swarm has made for it.
func (v *inviter) lost(err error) error {
	if v.number == 0 {
		return err
	}
	n, _ := v.i.Of(identity.RoleSN)
	hint := "to take it back: swarmctl forget node " + n.Name
	if also := exit.Hint(err); also != "" {
		hint += "; to invite again, which takes it back too, " + also
	}
	return exit.New(exit.Code(err), hint, "%w; invitation %d of SN %s was made, and nobody has its line", err, v.number, n.Name)
}

// print prints the line alone to standard output, and what is to be known of it beside.
func (v *inviter) print() error {
	line, err := v.i.Encode()
	if err != nil {
		return err
	}
	fingerprint, err := v.i.Fingerprint()
	if err != nil {
		return err
	}
	out, shown := v.opts.String("out"), line
	if out != "-" {
		shown = ""
		err := writeFile(out, 0o600, v.opts.Bool("force"), func(w io.Writer) error {
			_, err := io.WriteString(w, line+"\n")
			return err
		})
		if err != nil {
			return v.lost(err)
		}
	}
	if v.s.JSON {
		return printJSON(v.s.Env.Stdout, v.json(shown, fingerprint))
	}
	if shown != "" {
		if _, err := fmt.Fprintln(v.s.Env.Stdout, shown); err != nil {
			return v.lost(err)
		}
	}
	_, err = io.WriteString(v.s.Env.Stderr, v.words(out, fingerprint))
	return err
}

// words is what an operator reads beside the line.
func (v *inviter) words(out, fingerprint string) string {
	var b strings.Builder
	where := "the line"
	file := "FILE"
	if out != "-" {
		where, file = out, text.Line(out)
	}
	fmt.Fprintf(&b, "invitation of %s: fingerprint %s, good for one host until %s\n", v.i.For(), fingerprint, v.i.Expires.Format(clockFormat))
	fmt.Fprintf(&b, "  SPIRE server %s, SNs %s\n", v.i.Server, strings.Join(v.sns(), " "))
	for _, n := range v.i.Nodes {
		id, how := v.i.SPIFFEID(n), "registration entry was there"
		switch {
		case slices.Contains(v.made, id):
			how = "registration entry made"
		case n.Name == "":
			how = "the entry that all operators share"
		}
		fmt.Fprintf(&b, "  %s: %s\n", id, how)
	}
	fmt.Fprintf(&b, "Carry %s to the host as a secret, and type there:\n", where)
	for _, n := range v.i.Nodes {
		fmt.Fprintf(&b, "  %s\n", commandOf(&v.i, n.Role, file))
	}
	if _, ok := v.i.Of(identity.RoleSL); ok {
		b.WriteString("PLATFORM is PYT or TF, whichever the program needs; PROGRAM is a file of the model directory\n")
	}
	if n, ok := v.i.Of(identity.RoleSWOP); ok {
		fmt.Fprintf(&b, "PROFILE is a file of DIR; with --ml-runtime docker tasks run in containers; its SLs have the SPIFFE ID spiffe://%s/swarm/sl, unless it names others, and are called %s-sl-0 and so on\n", v.i.TrustDomain, n.Name)
	}
	for _, option := range v.allowPeers() {
		fmt.Fprintf(&b, "SLs that list those whom they merge with need also: %s\n", option)
	}
	if n, ok := v.i.Of(identity.RoleSN); ok && v.i.Admission != nil {
		fmt.Fprintf(&b, "The first host that uses it is admitted as SN %s (invitation %d of the ledger); to take that back: swarmctl forget node %s\n", n.Name, v.number, n.Name)
	}
	for _, note := range v.notes {
		fmt.Fprintf(&b, "Note: %s\n", text.Line(note))
	}
	return b.String()
}

// besideSN is the file server's port of an SL whose host has an SN too, which has the default one.
const besideSN = "31305"

// commandOf is what the invited host types.
func commandOf(i *invitation.Invitation, role identity.Role, file string) string {
	switch role {
	case identity.RoleSL:
		command := "swarmd run-sl --invite " + file + " --sl-platform PLATFORM --model-program PROGRAM"
		if _, ok := i.Of(identity.RoleSN); ok {
			command += " --sl-fs-port " + besideSN
		}
		return command
	case identity.RoleSWOP:
		return "swarmd run-swop --invite " + file + " --usr-dir DIR --profile-file-name PROFILE"
	case identity.RoleSWCI:
		return "swarmctl create context swarm --invite " + file
	}
	return "swarmd run-" + string(role) + " --invite " + file
}

func (v *inviter) sns() (all []string) {
	for _, sn := range v.i.SNs {
		all = append(all, sn.API.String())
	}
	return all
}

func (v *inviter) allowPeers() []string {
	options := []string{}
	if n, ok := v.i.Of(identity.RoleSL); ok {
		options = append(options, "--allow-peer "+v.i.SPIFFEID(n))
	}
	return options
}

func (v *inviter) json(line, fingerprint string) invitationJSON {
	out := invitationJSON{
		Invitation: line, Fingerprint: fingerprint, Expires: v.i.Expires.Format(time.RFC3339), Made: append([]string{}, v.made...),
		Server: v.i.Server.String(), SNs: v.sns(), SwarmID: v.i.SwarmID, Admits: v.number, AllowPeers: v.allowPeers(),
	}
	for _, n := range v.i.Nodes {
		out.SPIFFEIDs = append(out.SPIFFEIDs, v.i.SPIFFEID(n))
	}
	return out
}
