package planner

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/liveness"
	"github.com/swarmd/swarmd/consensus/planner/notices"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/planner/warning"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// Log is the raft group as the leader needs it.
type Log interface {
	// ProposeAsLeader commits a command and returns when it was applied here. It fails unless this node leads.
	ProposeAsLeader(ctx context.Context, c state.Command) (state.Result, error)
	// View returns the state as applied here.
	View() *state.State
	// Changed returns a channel that is closed at the next change of View.
	Changed() <-chan struct{}
	// IsLeader reports whether this node leads the group.
	IsLeader() bool
}

// maxRecent bounds the rounds that the leader remembers per contract.
const maxRecent = 1000

// forgetAfter is when a report on a session that has ended or is unknown is dropped.
const forgetAfter = 30 * time.Second

// Planner carries out the leader's duties while this node leads. All methods are safe for concurrent use.
type Planner struct {
	cfg      Config
	raft     Log
	log      *slog.Logger
	reports  *reports.Store
	liveness *liveness.Tracker
	wake     chan struct{} // holds one, so that many wake-ups are one
	refused  string        // the last rejection that was logged as a warning; Run's alone

	mu        sync.Mutex
	leading   bool
	contracts map[string]*contract
}

// contract is what the leader remembers of one.
type contract struct {
	memory  Memory
	decided Inputs // those of the last decision; Contract is empty before the first
	said    string // the last reason that was logged
	run     uint64
	recent  []state.CommittedRound // newest last
	told    trainings

	recorded                map[uint64]round.Model // what the ledger said; Run's alone, as the next
	recordedAt, recordedRun uint64                 // when that round was the last one
}

// Status is what the leader knows of a contract beside the state.
type Status struct {
	Leading  bool                      // false: the rest is empty, ask the leader
	Waiting  Waiting                   // the zero value until the first decision
	Recent   []state.CommittedRound    // of this run since this node leads, newest last, at most 1,000
	Progress map[string]round.Progress // by session
	Held     map[string][]round.Model  // by session: what its node has said within the heartbeat timeout that it holds
	Warnings []warning.Warning         // of this run since this node leads, those found first at first
}

// New returns a leader that does nothing until Run.
func New(cfg Config, raft Log, log *slog.Logger) *Planner {
	cfg = cfg.withDefaults()
	tracker := liveness.New(cfg.HeartbeatTimeout, cfg.Self)
	return &Planner{cfg: cfg, raft: raft, log: log, reports: reports.New(), liveness: tracker, wake: make(chan struct{}, 1), contracts: map[string]*contract{}}
}

// Touch records a sign of life of a node. It does not block.
func (l *Planner) Touch(node string) {
	l.liveness.Touch(node, time.Now())
	if n := l.raft.View().Nodes[node]; n != nil && !n.Live && !n.Left() && l.raft.View().Banned(n.PeerID) == nil {
		l.awake()
	}
}

// Record takes a session's report, which is also a sign of life of r.Node. The caller has proven that r.Node speaks and
// owns the session, and checked Done's signature. It does not block, and reports whether r is not older than what the session said last.
func (l *Planner) Record(r reports.Report) bool {
	now := time.Now()
	l.liveness.Touch(r.Node, now)
	defer l.awake()
	return l.reports.Record(r, now)
}

// Status returns what the leader knows of a contract.
func (l *Planner) Status(name string) Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Leading: l.leading, Progress: map[string]round.Progress{}, Held: map[string][]round.Model{}}
	if !l.leading {
		return s
	}
	if c := l.contracts[name]; c != nil {
		s.Waiting, s.Recent = c.waiting(), slices.Clone(c.recent)
	}
	if c := l.raft.View().Contracts[name]; c != nil {
		reports := l.reports.Of(c)
		s.Warnings = l.toldOf(c, reports)
		for id, r := range reports {
			if r.Progress != nil {
				s.Progress[id] = *r.Progress
			}
			if len(r.Held) > 0 && time.Since(r.At) <= l.cfg.HeartbeatTimeout {
				s.Held[id] = slices.Clone(r.Held)
			}
		}
	}
	return s
}

// waiting makes the last decision once more, with its snapshot. The caller holds the leader's mu: remember changes what Recent shares.
func (k *contract) waiting() Waiting {
	if k.decided.Contract == "" {
		return Waiting{}
	}
	in := k.decided
	in.Brief = false
	return Decide(in).Waiting
}

// Run carries out the duties whenever this node leads, until ctx ends; it returns nil then. Leading or not, it logs what
// [notices.Notices] finds. Proposals are made one after the other by Run itself, so no contract ever has two in flight.
func (l *Planner) Run(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.Tick)
	defer tick.Stop()
	notice := notices.New(l.log, time.Now())
	for {
		changed := l.raft.Changed()
		notice.Log(l.raft.View())
		if l.lead() {
			l.step(ctx)
		}
		select {
		case <-ctx.Done():
			l.setLeading(false)
			return nil
		case <-tick.C:
		case <-changed:
		case <-l.wake:
		}
	}
}

// lead follows changes of leadership: a new term begins with nothing remembered.
func (l *Planner) lead() bool {
	leading := l.raft.IsLeader()
	l.setLeading(leading)
	return leading
}

func (l *Planner) setLeading(leading bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if leading == l.leading {
		return
	}
	l.leading = leading
	clear(l.contracts)
	if leading {
		l.liveness.Begin(time.Now())
		l.reports.Clear()
	}
	l.log.Info("raft leadership changed", "leading", leading)
}

// step proposes what is due now.
func (l *Planner) step(ctx context.Context) {
	now := time.Now()
	view := l.raft.View()
	for _, c := range l.liveness.Changes(view, now) {
		if !l.propose(ctx, c) {
			return
		}
		l.log.Info("node liveness changed", "node", c.Node, "live", c.Live)
	}
	l.reports.Forget(view, now.Add(-forgetAfter))
	view = l.raft.View()
	l.mu.Lock()
	maps.DeleteFunc(l.contracts, func(name string, _ *contract) bool { return view.Contracts[name] == nil })
	l.mu.Unlock()
	for _, name := range view.ContractNames() {
		if c := view.Contracts[name]; c.Unused(now.UnixMilli()) {
			if !l.propose(ctx, state.ExpireContract{Contract: name, Run: c.Run, AtMS: now.UnixMilli()}) {
				return
			}
			l.log.Info("an unused contract is gone", "contract", name)
			continue
		}
		// A contract whose command can't be committed must not hold up those after it; only a lost leadership ends the step.
		if command := l.decide(name, now); command != nil && !l.propose(ctx, command) && (ctx.Err() != nil || !l.raft.IsLeader()) {
			return
		}
	}
}

// scan takes a contract's reports, and after them the newest view. In this order the view holds whatever was committed before
// a report came: who is heard to be ready since it has closed is seen closed, or one round too many would follow. The
// contract is nil when there is none.
func (l *Planner) scan(name string) (view *state.State, c *state.Contract, reports map[string]reports.Report) {
	known := l.raft.View().Contracts[name]
	if known == nil {
		return nil, nil, nil
	}
	reports = l.reports.Of(known)
	view = l.raft.View()
	if c = view.Contracts[name]; c != nil && c.Run != known.Run {
		clear(reports) // of the run before
	}
	return view, c, reports
}

// decide runs Decide for one contract, on the newest view, and keeps what it says.
func (l *Planner) decide(name string, now time.Time) state.Command {
	view, c, reports := l.scan(name)
	if c == nil {
		return nil
	}
	l.mu.Lock()
	known := l.contracts[name]
	if known == nil {
		known = &contract{}
		l.contracts[name] = known
	}
	known.remember(c)
	l.warn(c, known.told.take(c, reports))
	l.mu.Unlock()
	in := Inputs{
		Now: now, View: view, Contract: name, Reports: reports, Memory: known.memory, Config: l.cfg, Recent: known.recent, Brief: true,
	}
	d := Decide(in)
	if _, lose := d.Command.(state.LoseModel); lose || d.Waiting.Kind == WaitModel {
		if in.Recorded = l.prove(known, c); in.Recorded != nil {
			d = Decide(in)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known.memory, known.decided = d.Memory, in
	if said := d.Waiting.key(); said != known.said {
		known.said = said
		level := slog.LevelDebug
		if d.Waiting.Kind.Hinders() {
			level = slog.LevelInfo
		}
		l.log.Log(context.Background(), level, "contract waits", "contract", name, "reason", d.Waiting.String())
	}
	return d.Command
}

// Hinders reports whether it keeps training from going on; the rest is the usual course of a round.
func (k Kind) Hinders() bool {
	return slices.Contains([]Kind{WaitPeers, WaitRetry, WaitWeight, WaitModel, WaitProof, WaitOwners, WaitRequired, WaitShare, WaitCap, WaitMethod, WaitRefusal, WaitApart, WaitPaused}, k)
}

// remember adds the last committed round, if it is new.
func (k *contract) remember(c *state.Contract) {
	if k.run != c.Run {
		k.run, k.recent, k.told = c.Run, nil, trainings{}
	}
	if c.Committed == nil {
		return
	}
	if n := len(k.recent); n > 0 && k.recent[n-1].Round == c.Committed.Round {
		k.recent[n-1] = *c.Committed // It may have become final.
		return
	}
	k.recent = append(k.recent, *c.Committed)
	k.recent = slices.Delete(k.recent, 0, max(0, len(k.recent)-maxRecent))
}

// propose returns false when the group can't commit right now. A rejection is no such error: the state has moved on, and
// the next decision sees it.
func (l *Planner) propose(ctx context.Context, c state.Command) bool {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.ProposeTimeout)
	defer cancel()
	_, err := l.raft.ProposeAsLeader(ctx, c)
	if err == nil {
		l.awake() // One decision often makes the next one due.
		return true
	}
	if reason := state.ReasonOf(err); reason != "" {
		level := slog.LevelDebug
		if reason == state.ReasonTooLarge && err.Error() != l.refused { // no later view mends it by itself
			l.refused, level = err.Error(), slog.LevelWarn
		}
		l.log.Log(ctx, level, "proposal rejected", "command", c.Type(), "reason", reason, "error", err)
		return true
	}
	if !errors.Is(err, context.Canceled) {
		l.log.Warn("proposal not committed", "command", c.Type(), "error", err)
	}
	return false
}

func (l *Planner) awake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
