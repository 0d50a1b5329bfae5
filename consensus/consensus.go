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
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/consensus/roster"
	"github.com/swarmd/swarmd/consensus/snlink"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/store"
	"github.com/swarmd/swarmd/consensus/watchdog"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/nonce"
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
	cfg     Config
	log     *slog.Logger
	self    Peer
	dir     string // raft's files; empty with injected stores
	store   Stores
	closers store.Closers // of what Open opened
	fsm     *fsm
	book    *ledgerfile.File
	disk    *watchdog.Watchdog
	growth  *store.Growth
	raft    *raft.Raft
	trans   *raftnet.Transport
	term    *atomic.Uint64 // raft's, as it was stored last
	nonces  *nonce.Table   // of those who join while this server leads
	asking  *admission.Candidates
	links   *snlink.Links
	server  *snlink.Server
	api     atomic.Pointer[http.Handler] // what the leader answers other SNs
	heard   *roster.Roster
	opened  time.Time
	polls   *quorum.Poller

	notify  chan bool     // raft's leadership changes
	news    chan struct{} // capacity 1: a command was committed that followers should hear of at once
	failed  chan error    // the first reason why this node can not go on
	stopped chan struct{} // closed when the group begins to shut down
	calls   atomic.Int64  // of await that raft has not answered
	stop    sync.Once
	closing error // what shutting down came to
	// hangUp ends leadership and all streams, which the others notice, and tells raft to end; once.
	hangUp func() (ended raft.Future, err error)
	lead   leadership

	mu      sync.Mutex
	streams map[net.Conn]string // accepted streams with the peer ID of their sender; nil once shut down
	rejoin  *rejoin
	serving sync.WaitGroup

	named   raftnet.Named // by the answers to joins
	joining chan struct{} // capacity 1: taken by the leader while it changes the configuration
	isLead  atomic.Bool
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
	g := &Group{
		cfg: cfg, log: cfg.Log, self: Peer{PeerID: peerID, Role: naming.RoleSN},
		heard: roster.New(), notify: make(chan bool, 16), news: make(chan struct{}, 1),
		failed: make(chan error, 1), stopped: make(chan struct{}),
		term: new(atomic.Uint64), nonces: nonce.New(time.Now), asking: admission.New(time.Now),
		streams: map[net.Conn]string{}, joining: make(chan struct{}, 1), opened: time.Now(),
	}
	g.polls = quorum.NewPoller(pollFresh, g.poll)
	g.disk = watchdog.New(cfg.Timing.Disk)
	g.hangUp = sync.OnceValues(g.hangUpNow)
	if err := g.openStores(); err != nil {
		return nil, fmt.Errorf("open consensus: %w", err)
	}
	err = g.openLedger()
	if err == nil {
		g.fsm = newFSM(g.fail, g.disk, g.book)
		err = g.startRaft()
	}
	if err != nil {
		return nil, fmt.Errorf("open consensus: %w", errors.Join(err, g.closers.Close()))
	}
	g.disk.GiveUpWhen(g.gives)
	return g, nil
}

// gives tells whether this server gives its disk up after a write has taken so long. Alone it makes room for nobody and waits. A
// leader holds up all others. A follower holds up the SLs that look to it; where servers share a storage that fails over all hang
// at once, and must not all be gone when it answers.
func (g *Group) gives(waited time.Duration) bool {
	return len(g.servers()) > 1 && (g.raft.State() == raft.Leader || waited >= 6*g.cfg.Timing.Disk)
}

func (g *Group) openStores() error {
	if g.cfg.Stores != nil {
		g.store = *g.cfg.Stores
	} else {
		g.dir = filepath.Join(g.cfg.Dir, "raft")
		var err error
		if g.store, g.closers, err = store.Open(g.dir, g.log); err != nil {
			return err
		}
	}
	if err := store.CheckMember(g.dir, g.store); err != nil {
		return errors.Join(err, g.closers.Close())
	}
	return nil
}

func (g *Group) startRaft() error {
	t := g.cfg.Timing
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(g.cfg.Name)
	conf.HeartbeatTimeout, conf.ElectionTimeout = t.Heartbeat, t.Election
	conf.LeaderLeaseTimeout, conf.CommitTimeout = t.Lease, t.Commit
	conf.SnapshotThreshold, conf.TrailingLogs, conf.SnapshotInterval = t.SnapshotAfter, t.Trailing, t.SnapshotEvery
	conf.Logger = raftnet.NewLog(g.log, "raft")
	conf.NotifyCh = g.notify
	conf.NoLegacyTelemetry = true
	conf.ShutdownOnRemove = false // a removed server waits for its chance to rejoin
	g.trans = raftnet.New(raftnet.Config{
		Network: g.cfg.Network, Address: g.cfg.Address, Term: g.term, Election: t.Election, Log: g.log,
		Genuine: g.genuine, Servers: g.servers, Named: g.named.Has, Tell: g.tellHandOver,
		Leader: func() string { a, _ := g.raft.LeaderWithID(); return string(a) },
	})
	g.growth = store.NewGrowth(t.SnapshotBytes, t.TrailingBytes, t.Trailing)
	if err := g.growth.Load(g.store); err != nil {
		return errors.Join(fmt.Errorf("read raft log: %w", err), g.trans.Close())
	}
	guarded := &store.Guard{Stores: g.store, Fail: g.fail, Disk: g.disk, Term: g.term, Growth: g.growth}
	snapshots := &store.Verified{SnapshotStore: g.store.Snapshots, Dir: g.dir, Log: g.log, Try: trySnapshot, Good: g.growth.Covered}
	// In a goroutine of its own, because the guard ends the goroutine that meets a broken store.
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.raft, err = raft.NewRaft(conf, g.fsm, guarded, guarded, snapshots, g.trans)
	}()
	<-done
	if g.raft == nil {
		select {
		case cause := <-g.failed:
			err = cause
		default:
		}
		return errors.Join(err, g.trans.Close())
	}
	g.growth.SetKeep(func(entries uint64) {
		rc := g.raft.ReloadableConfig()
		if rc.TrailingLogs = entries; g.raft.ReloadConfig(rc) != nil {
			g.log.Warn("could not change how many entries of the raft log stay", "entries", entries)
		}
	})
	g.links, g.server = snlink.New(g.dial), snlink.NewServer(g.between(), g.log)
	g.cfg.Network.Handle(ProtocolRaft, g.trans.Handle)
	g.cfg.Network.Handle(ProtocolRPC, g.serveLink)
	g.cfg.Network.Handle(ProtocolJoin, g.serveJoin)
	return nil
}

// fail records why this node can not go on; Run returns the first reason.
func (g *Group) fail(err error) {
	select {
	case g.failed <- err:
	default:
	}
}

// allow judges who may ask this server something; the role is checked already. Servers of the configuration
// may, and the leader that this server follows, before it has its configuration. A stranger may while this server knows no
// leader: it is new, or so far behind that it has not heard of those who joined since, and only a leader does what changes
// anything.
func (g *Group) allow(p Peer) bool {
	if !g.genuine(p) {
		return false
	}
	_, _, ok := g.Leader()
	return !ok || g.trans.Leads(p.PeerID) || g.trans.Known(p.PeerID)
}

// tellHandOver tells a follower to whom this leader hands over; one that does not hear it votes when it finds the leader gone.
func (g *Group) tellHandOver(ctx context.Context, address, successorID string) {
	_, _ = ask[handOver, nothing](ctx, g.links, address, askHandOver, &handOver{successorID})
}

// genuine tells whether a peer is neither banned nor one with a known node key and another SPIFFE ID than its node's: a
// stolen key is no SN.
func (g *Group) genuine(p Peer) bool {
	view := g.View()
	if view.Banned(p.PeerID) != nil {
		return false
	}
	n := view.NodeOfKey(p.PeerID)
	return n == nil || p.SPIFFEID == "" || n.Bears(p.SPIFFEID)
}

// HasState tells whether this server holds a log, so that it neither bootstraps nor starts as a stranger.
func (g *Group) HasState() bool {
	return g.raft.LastIndex() > 0 || len(g.servers()) > 0
}

// Bootstrap founds a group of this one server and proposes first, in order. If the server holds a log already, the
// founding is skipped and the commands, which have no effect twice, are proposed all the same.
func (g *Group) Bootstrap(ctx context.Context, first ...state.Command) error {
	err := g.raft.BootstrapCluster(raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter, ID: raft.ServerID(g.cfg.Name), Address: raft.ServerAddress(g.cfg.Address),
	}}}).Error()
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("bootstrap: %w", fromRaft(err))
	}
	if err := store.MarkMember(g.dir); err != nil {
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
	g.mu.Lock()
	g.rejoin = &rejoin{self: again} // a founder may be removed too
	g.mu.Unlock()
	for _, c := range first {
		if err := g.retry(ctx, func(ctx context.Context, _ string) error {
			_, err := g.Propose(ctx, c) // ErrNotLeader until this server is elected
			return err
		}); err != nil {
			return fmt.Errorf("bootstrap: propose %s: %w", c.Type(), err)
		}
	}
	return nil
}

// View returns the newest state that this server has applied. It is never nil and never changes.
func (g *Group) View() *state.State { return g.fsm.view.Load().state }

// Index returns the log index of the last command in View.
func (g *Group) Index() uint64 { return g.fsm.view.Load().index }

// Changed returns a channel that is closed when the next command has been applied. Take it before View to miss none.
func (g *Group) Changed() <-chan struct{} { return g.fsm.next() }

// Leader returns the leader that this server knows of; ok is false while it knows none.
func (g *Group) Leader() (name, address string, ok bool) {
	a, id := g.raft.LeaderWithID()
	return string(id), string(a), id != "" && a != ""
}

// servers returns the newest configuration, which may not be committed yet.
func (g *Group) servers() []raft.Server {
	future := g.raft.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// Close shuts the group down as Run does. It is for callers that opened a group and can't get as far as Run.
func (g *Group) Close() error {
	g.stop.Do(func() { g.closing = g.shutdown() })
	return g.closing
}

// Run does the leader's housekeeping and waits until ctx ends, which is no error, or this node can't follow the log any
// further. Before it returns it hands leadership over, if it can within two seconds, and closes everything.
func (g *Group) Run(ctx context.Context) error {
	runCtx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { g.leadershipLoop(runCtx) })
	tasks.Go(func() { g.rejoinLoop(runCtx) })
	tasks.Go(func() { g.spreadLoop(runCtx) })
	tasks.Go(func() { g.growthLoop(runCtx) })
	tasks.Go(func() { g.banLoop(runCtx) })
	tasks.Go(func() { g.ledgerLoop(runCtx) })
	tasks.Go(func() { g.quorumLoop(runCtx) })
	var cause error
	hung := false
	select {
	case <-ctx.Done():
	case <-g.stopped:
	case cause = <-g.failed:
	case <-g.disk.Hung():
		cause, hung = g.disk.Cause(), true
	}
	if cause == nil {
		select {
		case cause = <-g.failed: // which may have ended the rest
		default:
		}
	}
	cancel()
	ended := make(chan error, 1)
	var err error
	if !hung {
		if cause != nil {
			g.log.Error("consensus stops", "err", cause)
		}
		go func() {
			tasks.Wait()
			ended <- g.Close()
		}()
		select {
		case err = <-ended:
		case <-g.disk.Hung():
			cause, hung = g.disk.Cause(), true
		}
	}
	if hung { // Some goroutines are in a write, and others wait for them. The stores stay open; the process is to end.
		raftEnds, _ := g.hangUp()
		_ = g.ends(raftEnds)
		g.log.Error("consensus stops", "err", cause) // only now: the log may lie on the same disk
	}
	g.lead.close()
	if cause != nil {
		return fmt.Errorf("run consensus: %w", cause)
	}
	return err
}

func (g *Group) hangUpNow() (ended raft.Future, err error) {
	close(g.stopped)
	g.isLead.Store(false)
	ended = g.raft.Shutdown()
	g.closeStreams()
	g.links.Close()
	g.server.Close()
	g.trans.CloseStreams()
	return ended, g.trans.Close()
}

// ends returns what raft's end comes to. Raft may wait to tell of a leadership change, and nobody listens any more: that is
// thrown away until then.
func (g *Group) ends(ended raft.Future) <-chan error {
	down, told := make(chan error, 1), make(chan error, 1)
	go func() { down <- ended.Error() }()
	go func() {
		for {
			select {
			case <-g.notify:
			case err := <-down:
				told <- err
				return
			}
		}
	}()
	return told
}

// shutdown ends, in this order: leadership, so that the others need not wait for an election; the streams, so that
// nothing blocks; raft; the stores under it.
func (g *Group) shutdown() error {
	if g.raft.State() == raft.Leader && len(g.voters()) > 1 {
		done := make(chan error, 1)
		go func() { done <- g.raft.LeadershipTransfer().Error() }()
		timer := time.NewTimer(2 * time.Second)
		select {
		case err := <-done:
			if err != nil {
				g.log.Info("leadership not handed over", "err", err)
			}
		case <-timer.C:
		}
		timer.Stop()
	}
	for end := time.Now().Add(2 * time.Second); g.calls.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	ended, err := g.hangUp()
	g.serving.Wait()
	err = errors.Join(err, <-g.ends(ended))
	if err = errors.Join(err, g.book.Close(), g.closers.Close()); err != nil {
		return fmt.Errorf("close consensus: %w", err)
	}
	return nil
}
