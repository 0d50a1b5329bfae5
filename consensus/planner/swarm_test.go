package planner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/round"
)

const contractName = state.DefaultContract

// fakeLog is a raft group of one that applies at once, and keeps what was applied.
type fakeLog struct {
	mu      sync.Mutex
	s       *state.State
	changed chan struct{}
	applied []state.Command
	refused int // proposals that Apply rejected
	leader  atomic.Bool
	looked  func() // called after a state was taken by View, before it is returned; may be nil
}

var errNoLeader = errors.New("no leader")

func newFakeLog() *fakeLog {
	l := &fakeLog{s: state.New(), changed: make(chan struct{})}
	l.leader.Store(true)
	return l
}

func (l *fakeLog) IsLeader() bool { return l.leader.Load() }

func (l *fakeLog) View() *state.State {
	l.mu.Lock()
	view, looked := l.s, l.looked
	l.mu.Unlock()
	if looked != nil {
		looked()
	}
	return view
}

// onLook has View call a function.
func (l *fakeLog) onLook(looked func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looked = looked
}

func (l *fakeLog) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *fakeLog) ProposeAsLeader(_ context.Context, c state.Command) (state.Result, error) {
	if !l.leader.Load() {
		return state.Result{}, errNoLeader
	}
	return l.apply(c)
}

func (l *fakeLog) apply(c state.Command) (state.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, result, err := l.s.Apply(c)
	if err != nil {
		l.refused++
		return result, err
	}
	if err := state.Check(next); err != nil {
		return result, fmt.Errorf("after %s: %w", c.Type(), err)
	}
	if result.Changed {
		l.applied = append(l.applied, c)
	}
	l.s = next
	close(l.changed)
	l.changed = make(chan struct{})
	return result, nil
}

// swarm is a leader and simulated peers in virtual time.
type swarm struct {
	t      *testing.T
	log    *fakeLog
	start  time.Time
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup

	mu     sync.Mutex
	config planner.Config
	leader *planner.Planner
	stop   context.CancelFunc // of the leader
	peers  []*peer
	// exchange decides what a peer reports about an attempt; nil is Done.
	exchange func(p *peer, plan *state.Plan) *round.Failed
	digest   func(p *peer, plan *state.Plan) string
	loss     func(round uint64) float64
}

type peer struct {
	index   int
	node    string
	session string
	train   time.Duration // of one interval
	merge   time.Duration // of one exchange
	dead    atomic.Bool
	closeAt uint64 // closes after it has this round; 0: never
	open    state.OpenSession
}

// inSwarm runs fn in a bubble with n registered SLs whose sessions are not open yet.
func inSwarm(t *testing.T, n int, fn func(s *swarm)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &swarm{t: t, log: newFakeLog(), start: time.Now(), ctx: ctx, cancel: cancel}
		s.do(state.InitSwarm{SwarmID: "swarm-1", AtMS: 1})
		for i := range n {
			p := &peer{index: i, node: fmt.Sprintf("sl-%d", i), session: fmt.Sprintf("%032x", i+1), train: 2 * time.Second, merge: 300 * time.Millisecond}
			p.open = state.OpenSession{
				Session: p.session, Contract: contractName, Node: p.node, SyncFrequency: 16, Weight: 1,
				Terms: state.Terms{LayoutDigest: strings.Repeat("a", 64), Layout: []byte("a"), Leaves: 10, Method: "mean", MinPeers: uint32(n)},
			}
			s.peers = append(s.peers, p)
			s.do(state.RegisterNode{Node: state.Node{Name: p.node, Role: naming.RoleSL, PeerID: "key-" + p.node}, TokenHash: strings.Repeat("1", 64), AtMS: time.Now().UnixMilli()})
		}
		s.newLeader()
		fn(s)
		cancel()
		s.stop()
		s.wg.Wait()
	})
}

func (s *swarm) do(c state.Command) {
	s.t.Helper()
	if _, err := s.log.apply(c); err != nil {
		s.t.Fatalf("apply %s: %v", c.Type(), err)
	}
}

// newLeader replaces the leader by one that knows nothing.
func (s *swarm) newLeader() {
	ctx, stop := context.WithCancel(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
	s.leader, s.stop = planner.New(s.config, s.log, slog.New(slog.DiscardHandler)), stop
	leader := s.leader
	s.wg.Go(func() {
		if err := leader.Run(ctx); err != nil {
			s.t.Errorf("Run: %v", err)
		}
	})
}

func (s *swarm) current() *planner.Planner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader
}

// enrol opens a peer's session and lets it train.
func (s *swarm) enrol(peers ...*peer) {
	s.t.Helper()
	for _, p := range peers {
		s.do(p.open)
		s.wg.Go(func() { s.live(p) })
	}
}

// live is one SL: it reports at once on a change and every second otherwise.
func (s *swarm) live(p *peer) {
	base, seq := &state.CommittedRound{}, uint64(1)
	readyAt := time.Now() // The first Sync comes before any training.
	closed := false
	said, saidAt := "", time.Time{}
	began, attempt := time.Time{}, ""
	for s.ctx.Err() == nil {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
		if p.dead.Load() {
			said = ""
			continue
		}
		c := s.log.View().Contracts[contractName]
		if mine := c.Sessions[p.session]; mine == nil || mine.State == state.SessionEnded {
			return
		}
		if done := c.Committed; done != nil && done.Round > base.Round {
			base, readyAt = done, time.Now().Add(p.train)
			if c.Sessions[p.session].LastRound == done.Round {
				seq++
			}
		}
		if skipped := c.Sessions[p.session].SkippedSeq; skipped >= seq && !closed {
			seq, readyAt = skipped+1, time.Now().Add(p.train)
		}
		if p.closeAt > 0 && base.Round >= p.closeAt && !closed {
			closed = true
			s.do(state.CloseSession{Session: p.session, Contract: contractName, Run: c.Run, Seq: seq - 1, AtMS: time.Now().UnixMilli()})
		}
		r := reports.Report{Session: p.session, Contract: contractName, Run: c.Run, Node: p.node}
		if base.Round > 0 && s.loss != nil {
			r.Progress = &round.Progress{Round: base.Round, Loss: s.loss(base.Round), HasLoss: true}
		}
		if !time.Now().Before(readyAt) || closed {
			r.Ready = &round.Ready{Seq: seq, BaseRound: base.Round, BaseDigest: base.Digest, Weight: 1}
		}
		if c.Plan != nil && c.Plan.Participant(p.session) != nil {
			if key := fmt.Sprint(c.Plan.Round, c.Plan.Attempt); key != attempt {
				attempt, began = key, time.Now()
			}
			if time.Since(began) >= p.merge {
				s.merged(p, c.Plan, &r)
			}
		}
		if now := fmt.Sprintf("%+v %+v %+v", r.Ready, r.Done, r.Failed); now != said || time.Since(saidAt) >= time.Second {
			said, saidAt = now, time.Now()
			s.current().Record(r)
		}
	}
}

func (s *swarm) merged(p *peer, plan *state.Plan, r *reports.Report) {
	if s.exchange != nil {
		if r.Failed = s.exchange(p, plan); r.Failed != nil {
			r.Failed.Round, r.Failed.Attempt = plan.Round, plan.Attempt
			return
		}
	}
	digest := fmt.Sprintf("%064x", plan.Round)
	if s.digest != nil {
		digest = s.digest(p, plan)
	}
	r.Done = &round.Done{Round: plan.Round, Attempt: plan.Attempt, ModelDigest: digest}
	if s.current().Asks(contractName, plan.Run, plan.Round, plan.Attempt) {
		r.Done.ShardDigests = []string{digest}
	}
}

// run lets virtual time pass and waits until everything that is due then was done.
func (s *swarm) run(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *swarm) contract() *state.Contract { return s.log.View().Contracts[contractName] }

// commands returns what was applied of one type.
func commands[C state.Command](s *swarm) []C {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	var found []C
	for _, c := range s.log.applied {
		if c, ok := c.(C); ok {
			found = append(found, c)
		}
	}
	return found
}

func nodes(parts []state.Participant) string {
	var list []string
	for _, p := range parts {
		list = append(list, p.Node)
	}
	return strings.Join(list, " ")
}
