package assign

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/text"
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

const (
	// tick is how long reports are gathered, and the longest time between two decisions.
	tick = 250 * time.Millisecond
	// proposeTimeout bounds one proposal.
	proposeTimeout = 5 * time.Second
)

// Scheduler carries out the leader's duties while this node leads. All methods are safe for concurrent use.
type Scheduler struct {
	raft Log
	log  *slog.Logger

	mu      sync.Mutex
	since   time.Time             // when this node began to lead; zero: it does not
	reports map[string]HostReport // by node
}

// New returns a scheduler that does nothing until Run.
func New(raft Log, log *slog.Logger) *Scheduler {
	return &Scheduler{raft: raft, log: log, reports: map[string]HostReport{}}
}

// Record takes a host's report, which replaces its last one. The caller has proven that r.Node speaks. It does not block.
func (s *Scheduler) Record(r HostReport) {
	r.Members = slices.Clone(r.Members[:min(len(r.Members), task.MaxHosted)])
	for i := range r.Members {
		m := &r.Members[i]
		m.Node, m.Text = r.Node, text.Line(m.Text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.raft.View().Nodes[r.Node] != nil {
		s.reports[r.Node] = r
	}
}

// Run carries out the duties whenever this node leads, until ctx ends; it returns nil then.
func (s *Scheduler) Run(ctx context.Context) error {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	gathered := true
	for {
		changed := s.raft.Changed()
		if in, leading := s.inputs(time.Now()); leading {
			s.step(ctx, in, gathered)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			gathered = true
		case <-changed:
			gathered = false
		}
	}
}

// inputs follow changes of leadership: a new term begins with nothing reported.
func (s *Scheduler) inputs(now time.Time) (Inputs, bool) {
	leading, view := s.raft.IsLeader(), s.raft.View()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !leading:
		s.since = time.Time{}
		return Inputs{}, false
	case s.since.IsZero():
		s.since = now
		clear(s.reports)
	}
	maps.DeleteFunc(s.reports, func(node string, _ HostReport) bool { return view.Nodes[node] == nil })
	return Inputs{Now: now, Since: s.since, View: view, Reports: maps.Clone(s.reports)}, true
}

// step proposes what is due now, in one command. Reports from which nothing follows wait until they are gathered: each by itself would
// cost an entry.
func (s *Scheduler) step(ctx context.Context, in Inputs, gathered bool) {
	moves := Decide(in)
	if !gathered && !slices.ContainsFunc(moves, func(m task.Move) bool { return m.Do != "" }) || len(moves) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	_, err := s.raft.ProposeAsLeader(ctx, state.MoveAssignments{Moves: moves, AtMS: in.Now.UnixMilli()})
	switch {
	case err == nil:
		for _, m := range moves {
			s.tell(ctx, m)
		}
	case state.ReasonOf(err) != "": // The state has moved on, and the next decision sees it.
		s.log.DebugContext(ctx, "proposal rejected", "command", "move_assignments", "error", err)
	case !errors.Is(err, context.Canceled):
		s.log.WarnContext(ctx, "proposal not committed", "command", "move_assignments", "error", err)
	}
}

// tell logs what operators want to know of a move.
func (s *Scheduler) tell(ctx context.Context, m task.Move) {
	switch m.Do {
	case task.Wait:
		s.log.InfoContext(ctx, "assignment waits", "assignment", m.Assignment, "for", m.Why)
	case task.Place:
		s.log.InfoContext(ctx, "assignment placed", "assignment", m.Assignment, "epoch", m.Epoch+1, "members", len(m.Members))
	case task.Withdraw:
		s.log.WarnContext(ctx, "assignment withdrawn from its hosts, to be placed anew", "assignment", m.Assignment, "epoch", m.Epoch, "reason", m.Why)
	case task.Judge:
		s.log.InfoContext(ctx, "assignment ended", "assignment", m.Assignment, "verdict", m.Verdict, "reason", m.Why)
	case task.Pass, task.Close:
		s.log.DebugContext(ctx, "assignment goes on", "assignment", m.Assignment, "step", m.Do)
	}
}
