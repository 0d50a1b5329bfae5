package nodetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/libp2p/go-libp2p/core/crypto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/claim"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/node/nodetest/slots"
)

// Contract is the contract of all programs that name no other.
const Contract = "c"

// SwarmID is of all swarms.
const SwarmID = "0123456789abcdef0123456789abcdef"

// Config says what a swarm is made of. Zero fields take their default.
type Config struct {
	SNs, SLs      int // sn-0 … and sl-0 …; default 1 and 1
	MinPeers      int // default: all SLs
	ExpectedPeers int
	// CheckinDefault is what SLs have for programs that choose no check-in mode; empty: nothing.
	CheckinDefault string
	QuorumWait     time.Duration // default 30 s
	Steps          int           // default 5
	Elements       int           // of the model; default 400, which is two leaves
	Think          time.Duration // of one step; default 1 s
	Late           []string      // SLs that do not start by themselves
	Calm           time.Duration // how long the SNs are alone before the SLs start
	// Admit has operators admit SNs. Those after the first one join by SNs.Invite and SNs.Join.
	Admit bool
	// Containers lets programs outlive the daemons of their SLs, as in containers: Restart adopts what Crash left.
	Containers bool
	// AllowPeers says by the name of an SL whose nodes it takes part with; none: all.
	AllowPeers map[string]pattern.List
	// API stands in front of an SN's API, by the SN's name; none: nothing does.
	API map[string]func(genuine http.Handler) http.Handler
	// Program changes what the SL with this index runs. The default adds 3·(i+1) in every step to an initial 30·(i+1).
	Program func(i int, p *Program)
}

func (c Config) withDefaults() Config {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.SNs, 1)
	set(&c.SLs, 1)
	set(&c.MinPeers, c.SLs)
	set(&c.Steps, 5)
	set(&c.Elements, 400)
	if c.Think == 0 {
		c.Think = time.Second
	}
	return c
}

// nodeID is who a node is, whichever incarnation it is in.
type nodeID struct {
	name, role     string
	index          int
	dir            string // of its files
	key            crypto.PrivKey
	peerID, spiffe string
	source         *provider
	log            *logs.Ring // of its daemon, as far as it is handed out
}

// identities are those of a swarm, by name, for the test's goroutine.
type identities map[string]nodeID

// Swarm is a running swarm. Its methods are for the test's goroutine only.
type Swarm struct {
	Network *Network
	Traffic *Traffic
	Liars   *Liars
	SNs     *SNs
	SLs     *SLs
	Log     *Log

	t         testing.TB
	dir       string
	cfg       Config
	logger    *slog.Logger
	authority *rpctest.Authority
	ids       identities
	clients   []*client.Client // the operator's first
	ended     bool
}

// SNs are those of a swarm.
type SNs struct {
	swarm *Swarm
	all   []*sn // sn-0 first
}

// SLs are those of a swarm, with their programs.
type SLs struct {
	swarm *Swarm
	all   []*sl
}

// New starts a swarm, within a synctest bubble: SNs, then the SLs that are not late with their programs. It returns when
// the SNs are one group. At the test's end it is checked and stopped.
func New(t testing.TB, cfg Config) *Swarm {
	t.Helper()
	cfg = cfg.withDefaults()
	authority, err := rpctest.NewAuthority("swarm.test")
	if err != nil {
		t.Fatal(err)
	}
	ids := identities{}
	s := &Swarm{Network: newNetwork(ids), Liars: newLiars(), t: t, dir: t.TempDir(), cfg: cfg, logger: testLog(), authority: authority, ids: ids}
	s.SNs, s.SLs, s.Log = &SNs{swarm: s}, &SLs{swarm: s}, &Log{swarm: s}
	s.Traffic = newTraffic(func(name string) contribution { return s.sl(name).last().last() })
	t.Cleanup(s.close)
	for i := range cfg.SNs {
		s.SNs.all = append(s.SNs.all, newSN(s, s.identity(naming.RoleSN, i)))
	}
	for i := range cfg.SLs {
		s.SLs.all = append(s.SLs.all, &sl{swarm: s, id: s.identity(naming.RoleSL, i), disk: new(slots.Disk)})
	}
	for i, n := range s.SNs.all {
		s.must(n.start())
		if i == 0 {
			s.Until("the swarm to be founded", func() bool { return n.group.View().Nodes["sn-0"] != nil })
		}
	}
	s.Until("all SNs to vote", func() bool {
		for _, n := range s.SNs.all {
			if len(n.group.View().NodesByRole(naming.RoleSN)) < cfg.SNs {
				return false
			}
		}
		return true
	})
	op := s.identity("swci", 0)
	operator, err := s.client(op, s.Network.attach(op))
	s.must(err)
	_, err = operator.GetSwarm(context.Background()) // so that it knows all SNs
	s.must(err)
	time.Sleep(cfg.Calm)
	for _, n := range s.SLs.all {
		if !slices.Contains(cfg.Late, n.id.name) {
			s.must(n.start())
		}
	}
	return s
}

func testLog() *slog.Logger {
	if os.Getenv("SWARM_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

func (s *Swarm) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *Swarm) identity(role string, i int) nodeID {
	s.t.Helper()
	id := nodeID{name: fmt.Sprintf("%s-%d", role, i), role: role, index: i, log: logs.NewRing(1 << 10)}
	id.dir = filepath.Join(s.dir, id.name)
	s.must(os.Mkdir(id.dir, 0o700))
	var err error
	id.key, err = identity.LoadOrCreateNodeKey(filepath.Join(id.dir, "state"))
	s.must(err)
	peerID, err := identity.PeerID(id.key)
	s.must(err)
	id.peerID = peerID.String()
	id.source = issue(s, "/swarm/"+role+"/"+id.name)
	id.spiffe = id.source.id.String()
	s.ids[id.name] = id
	return id
}

// issue returns a source with an SVID of this path.
func issue(s *Swarm, path string) *provider {
	s.t.Helper()
	source, err := s.authority.Issue(path, 24*time.Hour)
	s.must(err)
	id, err := identity.ParseIDString("spiffe://swarm.test" + path)
	s.must(err)
	return &provider{Source: source, id: id, changed: make(chan struct{})}
}

// program is what the SL with this index runs.
func (s *Swarm) program(i int) Program {
	p := Program{
		Contract: Contract, MinPeers: s.cfg.MinPeers, Weight: 1, Mode: "snapshot", Steps: s.cfg.Steps, Think: s.cfg.Think,
		Init: 30 * float32(i+1), Delta: 3 * float32(i+1), Elements: s.cfg.Elements,
	}
	if s.cfg.Program != nil {
		s.cfg.Program(i, &p)
	}
	return p
}

func (s *Swarm) sn(name string) *sn {
	for _, n := range s.SNs.all {
		if n.id.name == name {
			return n
		}
	}
	return nil
}

func (s *Swarm) sl(name string) *sl {
	for _, n := range s.SLs.all {
		if n.id.name == name {
			return n
		}
	}
	return nil
}

// Hang makes the disk under an SL's weight files hang, or answer again: writes wait meanwhile.
func (ls *SLs) Hang(name string, hangs bool) { ls.swarm.sl(name).disk.Hang(hangs) }

// Crash ends nodes, all at once, and none leaves the swarm first.
func (s *Swarm) Crash(names ...string) {
	for _, name := range names {
		s.Network.host(name).detach()
	}
	for _, name := range names {
		if n := s.sn(name); n != nil {
			n.end(true)
		} else {
			s.sl(name).end()
		}
	}
}

// Restart begins a new incarnation of a node that has crashed, or the first one of a late SL: an SN with its stores, an SL with
// nothing but its key and a new run of its program, unless that lives on (Config.Containers).
func (s *Swarm) Restart(name string) {
	s.t.Helper()
	if n := s.sn(name); n != nil {
		n.end(true)
		if n.tasks != nil {
			n.tasks.Wait()
		}
		s.must(n.start())
		return
	}
	n := s.sl(name)
	n.end()
	s.must(n.start())
}

// Join starts a new SN that knows no other than one to join through, with the secret of its invitation; nil: it has none.
func (ns *SNs) Join(via string, secret []byte) string {
	ns.swarm.t.Helper()
	n := newSN(ns.swarm, ns.swarm.identity(naming.RoleSN, len(ns.all)))
	n.via, n.secret = ns.swarm.sn(via), secret
	ns.all = append(ns.all, n)
	ns.swarm.must(n.start())
	return n.id.name
}

// Invite has the operator invite the SN that joins next, and returns the secret of the invitation.
func (ns *SNs) Invite(life time.Duration) []byte {
	ns.swarm.t.Helper()
	name := fmt.Sprintf("%s-%d", naming.RoleSN, len(ns.all))
	secret := sha256.Sum256([]byte(name))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := ns.swarm.Operator().InviteNode(ctx, name, "spiffe://swarm.test/swarm/sn/"+name, claim.KeyOf(secret[:]), time.Now().Add(life).UnixMilli())
	ns.swarm.must(err)
	return secret[:]
}

// Entries returns what each entry of raft's log is, in order: a command's type, or raft's own name of it.
func (l *Log) Entries() []string {
	l.swarm.t.Helper()
	n := l.swarm.sn(l.swarm.Leader())
	var all []string
	for i := uint64(1); i <= n.group.Index(); i++ {
		var entry raft.Log
		l.swarm.must(n.log.GetLog(i, &entry))
		what := entry.Type.String()
		if entry.Type == raft.LogCommand {
			c, err := state.DecodeCommand(entry.Data)
			l.swarm.must(err)
			what = c.Type()
		}
		all = append(all, what)
	}
	return all
}

// ProposeAgain proposes every command of the log once more, as an old leader would whose messages were on their way for
// long, and returns the types of those that changed anything.
func (l *Log) ProposeAgain() []string {
	l.swarm.t.Helper()
	n := l.swarm.sn(l.swarm.Leader())
	h, err := replay(n.log, n.group.Index())
	l.swarm.must(err)
	var changed []string
	for _, c := range h.commands {
		switch c.(type) {
		case state.PlanRound, state.CancelPlan, state.CommitRound, state.FinishContract:
		default:
			continue // not a leader's word on a round
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		res, err := n.group.Propose(ctx, c)
		cancel()
		if err != nil && state.ReasonOf(err) == "" {
			l.swarm.t.Errorf("propose %s again: %v", c.Type(), err)
		}
		if err == nil && res.Changed {
			changed = append(changed, c.Type())
		}
	}
	return changed
}

// Until waits in virtual time, at most ten minutes.
func (s *Swarm) Until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	s.t.Fatalf("waited ten minutes for %s\n%s", what, s.Describe())
}

// Describe says how everything stands, for messages.
func (s *Swarm) Describe() string {
	var b strings.Builder
	for _, n := range s.SNs.all {
		if !n.up() {
			fmt.Fprintf(&b, "%s is down\n", n.id.name)
			continue
		}
		leader, _, _ := n.group.Leader()
		fmt.Fprintf(&b, "%s: index %d, leader %q, leads %v", n.id.name, n.group.Index(), leader, n.group.IsLeader())
		if c := n.group.View().Contracts[Contract]; c != nil {
			fmt.Fprintf(&b, ", phase %s, round %d, plan %+v, over %v; %s", c.Phase(), c.Round(), c.Plan, c.Over, n.status(Contract).Waiting)
		}
		b.WriteByte('\n')
	}
	for _, n := range s.SLs.all {
		r := n.last()
		if r == nil {
			continue
		}
		h := r.Handed()
		fmt.Fprintf(&b, "%s: up %v, %d models, waits %q, err %v", n.id.name, n.up(), len(h), r.Waits(), r.Err())
		if e := n.engineNow(); e != nil {
			fmt.Fprintf(&b, ", %v", e.Status())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Leader returns the SN that leads; it waits until there is exactly one that all running and reachable SNs follow.
func (s *Swarm) Leader() string {
	s.t.Helper()
	name := ""
	s.Until("a leader", func() bool {
		name = s.leading()
		return name != ""
	})
	return name
}

func (s *Swarm) leading() string {
	for _, n := range s.SNs.all {
		if !n.up() || !n.group.IsLeader() {
			continue
		}
		followers, up := 0, 0
		for _, o := range s.SNs.all {
			if !o.up() {
				continue
			}
			up++
			if l, _, ok := o.group.Leader(); ok && l == n.id.name {
				followers++
			}
		}
		if 2*followers > up {
			return n.id.name
		}
	}
	return ""
}

// View returns a contract as the running SN with the newest state sees it; nil if there is none.
func (s *Swarm) View(contract string) *state.Contract {
	var best *sn
	for _, n := range s.SNs.all {
		if n.up() && (best == nil || n.group.Index() > best.group.Index()) {
			best = n
		}
	}
	if best == nil {
		return nil
	}
	return best.group.View().Contracts[contract]
}

// Round returns the last committed round of the programs' contract.
func (s *Swarm) Round() uint64 {
	if c := s.View(Contract); c != nil {
		return c.Round()
	}
	return 0
}

// Planned reports whether an attempt of this round is running.
func (s *Swarm) Planned(round uint64) bool {
	c := s.View(Contract)
	return c != nil && c.Plan != nil && c.Plan.Round == round
}

// Waiting returns the leader's reason why no round is planned or committed.
func (s *Swarm) Waiting() string {
	if n := s.sn(s.leading()); n != nil {
		return n.status(Contract).Waiting.String()
	}
	return "no leader"
}

// Reported returns what an SL told the swarm last about its session, nil before.
func (ls *SLs) Reported(name string) *swarmv1.SessionReport {
	n := ls.swarm.sl(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	return onwire.Report(n.reported)
}

// Run returns the newest run of an SL's program.
func (s *Swarm) Run(name string) *Run { return s.sl(name).last() }

// Runs returns all runs of an SL's program, oldest first.
func (ls *SLs) Runs(name string) []*Run {
	n := ls.swarm.sl(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.runs)
}

// Wait waits until the programs of the named SLs have ended, of all that have one if none is named.
func (s *Swarm) Wait(names ...string) {
	s.t.Helper()
	if len(names) == 0 {
		for _, n := range s.SLs.all {
			if n.last() != nil {
				names = append(names, n.id.name)
			}
		}
	}
	s.Until("programs to end: "+strings.Join(names, ", "), func() bool {
		for _, name := range names {
			select {
			case <-s.Run(name).Done():
			default:
				return false
			}
		}
		return true
	})
}

// Operator is a client with the role of swarmctl.
func (s *Swarm) Operator() client.Operator { return client.Operator{Client: s.clients[0]} }

// Guest is a client of the API with a name, a key and a place in the network, as a node has that is no SN and no SL.
type Guest struct {
	*client.Client

	Name   string
	Key    crypto.PrivKey
	Source identity.Source
	Cut    func() // ends all its streams: nothing reaches it any more, and it reaches nobody
}

// Guest adds the guest of a role with this index, with its key if it was there before.
func (s *Swarm) Guest(role string, i int) Guest {
	s.t.Helper()
	id, ok := s.ids[fmt.Sprintf("%s-%d", role, i)]
	if !ok {
		id = s.identity(role, i)
	}
	h := s.Network.attach(id)
	c, err := s.client(id, h)
	s.must(err)
	return Guest{c, id.name, id.key, id.source, h.detach}
}
