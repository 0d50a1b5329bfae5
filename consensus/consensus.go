// Package consensus keeps the SNs of a swarm in agreement: it binds package state to hashicorp/raft.
//
// A Group is one server. Commands go in through Propose on any server and come out, in one order everywhere, as the
// immutable states that View returns. DESIGN.md beside this file tells about reads, snapshots, joining and lost quorum.
package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/peerconn"
	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/consensus/roster"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/store"
	"github.com/swarmd/swarmd/identity/naming"
)

// MaxVoters is how many servers vote; further ones follow the log and take a voter's place when it is removed.
const MaxVoters = 5

// Stores are what a server keeps; tests give ones in memory.
type Stores = store.Stores

// Config is what a server needs.
type Config struct {
	// Name is the node's name, which is its server ID for ever.
	Name string
	// Address is where other servers reach this one: see FormatAddress.
	Address string
	// Dir is the node's state directory; raft's files lie in its folder "raft". Empty only with Stores.
	Dir     string
	Network Network
	Log     *slog.Logger
	// Timing may be left zero for the defaults.
	Timing Timing
	// Stores, if given, are used instead of files in Dir.
	Stores *Stores
	// OnHeard, if given, is called on the leader every Timing.Update with the names of the servers that it has heard
	// from since the last call, itself included. It must not block.
	OnHeard func(names []string)
	// OnCommitted, if given, is called on the leader for each command that was committed and applied here, with how long that took. It
	// must not block.
	OnCommitted func(took time.Duration)
	// OnContact, if given, is called, one call after the other, soon after this server has another leader, or one in another term, when too few
	// voters answer, and when it has a leader again. It must not block.
	OnContact func(Contact)
	// Vet, if given, judges on the leader each command that is proposed through Propose, and returns the
	// one to propose in its place. It must not block.
	Vet func(state.Command) (state.Command, error)
	// Prover proves this server's joins, and on the leader checks others'.
	Prover Prover
}

// Timing holds the periods of a group. Zero fields take their default.
type Timing struct {
	Heartbeat time.Duration // a follower that hears no leader for so long stands for election; default 1 s
	Election  time.Duration // a candidate tries again after so long; default 1 s
	Lease     time.Duration // a leader without a quorum steps down after so long; default 500 ms
	Commit    time.Duration // an idle leader tells followers the commit index after so long; default 25 ms
	Update    time.Duration // the leader asks servers how they do so often; default 2 s
	Dead      time.Duration // a server unheard of for so long is removed if three voters remain; default 1 min
	Stable    time.Duration // a non-voter must be well for so long before it may vote; default 10 s
	Disk      time.Duration // a write to disk that takes so long stops a leader, six times as long a follower; default 20 s
	// SnapshotAfter is how many entries the log grows by between snapshots; default 8192.
	SnapshotAfter uint64
	// Trailing is how many entries stay in the log behind a snapshot, for followers that lag; default 2048.
	Trailing uint64
	// SnapshotBytes is how many bytes of entries the log grows by between snapshots, and TrailingBytes of how many bytes entries
	// stay behind one at most; default 64 MiB and 16 MiB.
	SnapshotBytes, TrailingBytes int
	// SnapshotEvery is how often the log's growth is looked at; default 2 min.
	SnapshotEvery time.Duration
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (t Timing) withDefaults() Timing {
	orDefault(&t.Heartbeat, time.Second)
	orDefault(&t.Election, time.Second)
	orDefault(&t.Lease, min(500*time.Millisecond, t.Heartbeat))
	orDefault(&t.Commit, 25*time.Millisecond)
	orDefault(&t.Update, 2*time.Second)
	orDefault(&t.Dead, time.Minute)
	orDefault(&t.Stable, 10*time.Second)
	orDefault(&t.Disk, 20*time.Second)
	orDefault(&t.SnapshotAfter, 8192)
	orDefault(&t.Trailing, 2048)
	orDefault(&t.SnapshotBytes, 64<<20)
	orDefault(&t.TrailingBytes, 16<<20)
	orDefault(&t.SnapshotEvery, 2*time.Minute)
	return t
}

// Group is this node's server. Its methods are safe for concurrent use. Whoever opened it calls Run or Close.
type Group struct {
	cfg      Config
	log      *slog.Logger
	storage  *storage
	replica  *replica
	trans    *raftnet.Transport
	peers    *peers
	lead     *leadership
	contact  *contact
	members  *membership
	joiner   *joiner
	endpoint *endpoint
	bans     *bans
	ledger   *ledgerCopy
	failed   chan error // the first reason why this node can not go on
	end      ending
}

// Open opens the server's stores, restores its newest snapshot and starts raft; it dials nobody by itself. A log that
// does not read or has vanished is an error, never an empty start.
func Open(cfg Config) (*Group, error) {
	peerID, _, err := ParseAddress(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("open consensus: %w", err)
	}
	if cfg.Name == "" || cfg.Network == nil || cfg.Log == nil || cfg.Prover == nil || (cfg.Dir == "" && cfg.Stores == nil) {
		return nil, errors.New("open consensus: name, network, log, prover and a directory or stores are needed")
	}
	cfg.Timing = cfg.Timing.withDefaults()
	g := &Group{cfg: cfg, log: cfg.Log, failed: make(chan error, 1), replica: newReplica(cfg.Name, cfg.Address, peerID, naming.RoleSN)}
	if cfg.OnCommitted != nil {
		g.replica.committed = cfg.OnCommitted
	}
	g.end.hangUp = sync.OnceValues(g.hangUpNow)
	if g.storage, err = openStorage(cfg); err != nil {
		return nil, fmt.Errorf("open consensus: %w", err)
	}
	g.assemble()
	if err := g.startRaft(); err != nil {
		return nil, fmt.Errorf("open consensus: %w", errors.Join(err, g.storage.closers.Close()))
	}
	g.storage.disk.GiveUpWhen(func(waited time.Duration) bool { return g.replica.gives(waited, cfg.Timing.Disk) })
	return g, nil
}

// assemble makes the parts of the group; nothing runs yet.
func (g *Group) assemble() {
	r, t := g.replica, g.cfg.Timing
	heard, named, streams := roster.New(), new(raftnet.Named), newStreams()
	r.entries, r.fsm = g.storage.stores.Log, newFSM(g.fail, g.storage.disk, g.storage.ledger)
	conns := peerconn.New(dialer(r, g.cfg.Network))
	g.ledger = &ledgerCopy{file: g.storage.ledger, replica: r, conns: conns, fail: g.fail, log: g.log}
	stats := func() serverStats {
		s := r.stats()
		s.LedgerBehind = g.ledger.complete() != nil
		return s
	}
	g.peers = &peers{self: g.cfg.Address, conns: conns, stats: stats}
	g.members = newMembership(r, g.peers, heard, g.log)
	admitter := newAdmitter(r, g.peers, g.members, g.cfg.Prover, g.log)
	g.joiner = &joiner{
		replica: r, admitter: admitter, network: g.cfg.Network, named: named, election: t.Election, dir: g.storage.dir, log: g.log,
	}
	g.trans = raftnet.New(raftnet.Config{
		Network: g.cfg.Network, Address: g.cfg.Address, Term: g.storage.term, Election: t.Election, Log: g.log,
		Genuine: r.genuine, Servers: r.servers, Named: named.Has, Notify: g.peers.notifyHandOver,
		Leader: func() string { _, address, _ := r.leader(); return address },
	})
	g.contact = newContact(r, g.peers, g.cfg)
	g.lead = &leadership{replica: r, heard: heard, log: g.log, notify: make(chan bool, 16)}
	g.endpoint = &endpoint{replica: r, ledger: g.ledger, admitter: admitter, trans: g.trans, stats: stats, log: g.log, streams: streams}
	g.endpoint.server = peerconn.NewServer(g.endpoint.between(), g.log)
	g.bans = &bans{replica: r, members: g.members, trans: g.trans, conns: conns, streams: streams, every: t.Update, log: g.log}
}

func (g *Group) startRaft() error {
	t := g.cfg.Timing
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(g.cfg.Name)
	conf.HeartbeatTimeout, conf.ElectionTimeout = t.Heartbeat, t.Election
	conf.LeaderLeaseTimeout, conf.CommitTimeout = t.Lease, t.Commit
	conf.SnapshotThreshold, conf.TrailingLogs, conf.SnapshotInterval = t.SnapshotAfter, t.Trailing, t.SnapshotEvery
	conf.Logger = raftnet.NewLog(g.log, "raft")
	conf.NotifyCh = g.lead.notify
	conf.NoLegacyTelemetry = true
	conf.ShutdownOnRemove = false // a removed server waits for its chance to rejoin
	guarded, snapshots := g.storage.guarded(g.fail)
	// In a goroutine of its own, because the guard ends the goroutine that meets a broken store.
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.replica.raft, err = raft.NewRaft(conf, g.replica.fsm, guarded, guarded, snapshots, g.trans)
	}()
	<-done
	if g.replica.raft == nil {
		select {
		case cause := <-g.failed:
			err = cause
		default:
		}
		return errors.Join(err, g.trans.Close())
	}
	g.storage.growth.SetKeep(func(entries uint64) {
		rc := g.replica.raft.ReloadableConfig()
		if rc.TrailingLogs = entries; g.replica.raft.ReloadConfig(rc) != nil {
			g.log.Warn("could not change how many entries of the raft log stay", "entries", entries)
		}
	})
	g.lead.autopilot = newAutopilot(pilot{
		replica: g.replica, peers: g.peers, heard: g.lead.heard, timing: t, onHeard: g.cfg.OnHeard, log: g.log,
	}, g.members.unfit)
	g.cfg.Network.Handle(ProtocolRaft, g.trans.Handle)
	g.cfg.Network.Handle(ProtocolRPC, g.endpoint.serveLink)
	g.cfg.Network.Handle(ProtocolJoin, g.endpoint.serveJoin)
	return nil
}

// fail records why this node can not go on; Run returns the first reason.
func (g *Group) fail(err error) {
	select {
	case g.failed <- err:
	default:
	}
}

// HasState reports whether this server holds a log, so that it neither bootstraps nor starts as a stranger.
func (g *Group) HasState() bool {
	return g.replica.raft.LastIndex() > 0 || len(g.replica.servers()) > 0
}

// Bootstrap founds a group of this one server and proposes first, in order. If the server holds a log already, the
// founding is skipped and the commands, which have no effect twice, are proposed all the same.
func (g *Group) Bootstrap(ctx context.Context, first ...state.Command) error {
	err := g.replica.raft.BootstrapCluster(raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter, ID: raft.ServerID(g.cfg.Name), Address: raft.ServerAddress(g.cfg.Address),
	}}}).Error()
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("bootstrap: %w", fromRaft(err))
	}
	if err := store.MarkMember(g.storage.dir); err != nil {
		return err
	}
	again := JoinRequest{Name: g.cfg.Name, Address: g.cfg.Address}
	for _, c := range first {
		switch c := c.(type) {
		case state.InitSwarm:
			again.SwarmID = c.SwarmID
		case state.RegisterNode:
			again.Register = c
		}
	}
	g.joiner.remember(again, nil) // a founder may be removed too
	for _, c := range first {
		if err := g.contact.retry(ctx, func(ctx context.Context, _ string) error {
			_, err := g.Propose(ctx, c) // ErrNotLeader until this server is elected
			return err
		}); err != nil {
			return fmt.Errorf("bootstrap: propose %s: %w", c.Type(), err)
		}
	}
	return nil
}

// View returns the newest state that this server has applied. It is never nil and never changes.
func (g *Group) View() *state.State { return g.replica.view() }

// Index returns the log index of the last command in View.
func (g *Group) Index() uint64 { return g.replica.index() }

// Changed returns a channel that is closed when the next command has been applied. Take it before View to miss none.
func (g *Group) Changed() <-chan struct{} { return g.replica.fsm.next() }

// Leader returns the leader that this server knows of; ok is false while it knows none.
func (g *Group) Leader() (name, address string, ok bool) { return g.replica.leader() }

// IsLeader reports whether this server leads and has applied everything committed before its term. It may be a lease's
// time out of date: Barrier is for reads that must not be.
func (g *Group) IsLeader() bool { return g.replica.leads() }

// Leadership returns a channel that receives true when this server has become the leader and has applied everything
// committed before, and false when it is no longer. The first value is the present one. A slow receiver misses values
// in between but never the last; true after true means that leadership was lost and won again. The channel is closed
// when Run ends.
func (g *Group) Leadership() <-chan bool { return g.lead.subscribe() }

// LeaderSeen returns when this server last had to do with a raft leader: now while it leads itself, which it does only
// with a majority behind it, else when it last heard from the one it follows; zero for never.
func (g *Group) LeaderSeen() time.Time { return g.contact.seen() }

// Quorum returns nil while this server knows a leader, or if a majority of the voters answers it. Otherwise it returns a
// *quorum.Error, which errors.Is finds to be quorum.ErrLost and ErrNoLeader. It blocks for two seconds at most.
func (g *Group) Quorum(ctx context.Context) error { return g.contact.quorum(ctx) }

// Servers returns the configuration's servers in its order, for status.
func (g *Group) Servers() []Server { return g.members.list() }

// Candidates are the SNs that wait for an operator to admit them, as the leader remembers them; elsewhere there are none.
func (g *Group) Candidates() []admission.Candidate { return g.endpoint.admitter.asking.List() }

// Join makes this server a member by asking the SNs at via, and those of its own configuration, until one has let it in
// or refused it for good (ErrRefused), or ctx ends. Call it on every start of an SN: a member is let in again at
// once, with its new address if that has changed, and a removed one comes back. It returns when this server has applied
// its own registration. While Run runs, a server that finds itself removed repeats the join by itself, last through via.
func (g *Group) Join(ctx context.Context, via []string, self JoinRequest) error {
	return g.joiner.join(ctx, via, self)
}

// LedgerComplete returns why this server can't show its ledger, or nil.
func (g *Group) LedgerComplete() error { return g.ledger.complete() }

// ReadLedger returns whole records of this server's ledger from an offset in bytes at which one begins, at most 1 MiB of
// them unless one is longer; none at its end. It fails while records are missing here, and with ErrOffset.
func (g *Group) ReadLedger(offset uint64) ([]byte, error) { return g.ledger.read(offset) }

// LedgerAfter is ReadLedger from behind the first n records.
func (g *Group) LedgerAfter(n uint64) ([]byte, error) { return g.ledger.after(n) }
