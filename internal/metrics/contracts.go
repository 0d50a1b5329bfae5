package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
)

// Bounds of what is told by name.
const (
	maxContracts = 64
	maxNodes     = 256
)

// askAgain is the pause between two questions whether this SN has caught up.
const askAgain = time.Second

// askWaits is the least time between two questions what contracts wait for.
const askWaits = 5 * time.Second

// durations are the bounds of what a round takes, in seconds: from a model of some bytes on one host to days on slow links.
var durations = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400}

// Contracts is the replicated state as an SN has applied it.
type Contracts interface {
	// View returns the newest state.
	View() *state.State
	// Changed returns a channel that is closed at the next change of View.
	Changed() <-chan struct{}
}

// follower tells of nodes and contracts, and counts the attempts of rounds, of which the state keeps only the last ones.
type follower struct {
	state     Contracts
	status    func(contract string) planner.Status
	lasted    prometheus.Histogram
	contracts *names
	nodes     *names

	is *descriptions

	waits waits

	mu   sync.Mutex
	seen map[string]*state.Contract // as it was taken last
	sums map[string]*attempts       // by label
	most int                        // rounds of the contracts beyond the bound, as was told last
}

// waits is what contracts wait for, as the leader said last. To say it he makes each decision once more, with his lock held: however often
// somebody scrapes, he is asked every few seconds at most.
type waits struct {
	mu    sync.Mutex
	asked time.Time
	of    map[string]planner.Waiting // by contract
}

// now asks about contracts where it is time.
func (w *waits) now(contracts []string, ask func(contract string) planner.Status) map[string]planner.Waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.asked) < askWaits && !w.asked.IsZero() {
		return w.of
	}
	of := map[string]planner.Waiting{}
	for _, name := range contracts {
		of[name] = ask(name).Waiting
	}
	w.of, w.asked = of, time.Now()
	return of
}

// descriptions are those of what it tells.
type descriptions struct {
	up, sessions, rounds, participants, tried, failed, waiting, since, assignments *prometheus.Desc
}

// attempts counts those of one label.
type attempts struct{ all, failed uint64 }

func newFollower(s Contracts, status func(string) planner.Status) *follower {
	return &follower{
		state: s, status: status, contracts: newNames(maxContracts), nodes: newNames(maxNodes), seen: map[string]*state.Contract{}, sums: map[string]*attempts{},
		lasted: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "swarmd_round_duration_seconds", Help: "Time from planning the attempt that was committed to its commit.", Buckets: durations,
		}),
		is: &descriptions{
			up:           desc("node_up", "1: the swarm hears of this registered node; 0: it does not. Nodes that left or are banned are absent.", "name", "role"),
			sessions:     desc("sessions", "Sessions of a contract's run, by state: open, closed.", "contract", "state"),
			rounds:       desc("contract_rounds_total", "Rounds that were committed in a contract's run.", "contract"),
			participants: desc("contract_participants", "Nodes that took part in the last committed round.", "contract"),
			tried:        desc("contract_attempts_total", "Attempts of rounds that were planned since this SN runs.", "contract"),
			failed:       desc("contract_attempts_failed_total", "Attempts of rounds that ended without a commit since this SN runs.", "contract"),
			waiting:      desc("contract_waiting", "1: what a contract waits for, told by the SN that leads.", "contract", "reason"),
			assignments:  desc("assignments", "Assignments of tasks and jobs, by phase: waiting, preparing, running, ending, over.", "phase"),
			since:        desc("contract_waiting_since_timestamp_seconds", "Since when a contract waits for that, told by the SN that leads.", "contract"),
		},
	}
}

// run takes each change of the state, until ctx ends. It begins when this SN has applied what was committed before: what raft replays at a
// start is no news.
func (f *follower) run(ctx context.Context, caughtUp func(context.Context) error) {
	for caughtUp(ctx) != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(askAgain):
		}
	}
	for {
		changed := f.state.Changed()
		f.take(f.state.View())
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// take counts what is new in a state. Contracts that did not change are the same pointers.
func (f *follower) take(v *state.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.seen {
		if v.Contracts[name] == nil {
			delete(f.seen, name)
		}
	}
	f.contracts.keep(func(name string) bool { return v.Contracts[name] != nil })
	for name := range f.sums {
		if name != Other && v.Contracts[name] == nil {
			delete(f.sums, name)
		}
	}
	for name, c := range v.Contracts {
		before := f.seen[name]
		if before == c {
			continue
		}
		f.seen[name] = c
		if before == nil {
			f.sum(name) // it begins at 0
			continue
		}
		all, failed := newAttempts(before, c)
		sum := f.sum(name)
		sum.all, sum.failed = sum.all+all, sum.failed+failed
		if d := c.Committed; c.Run == before.Run && c.Round() > before.Round() && d.Attempt > 0 && d.PlannedMS > 0 { // no attempt: a model that was taken over
			f.lasted.Observe(float64(max(0, d.CommittedMS-d.PlannedMS)) / 1000)
		}
	}
}

// sum is where a contract's attempts are counted. The caller holds mu.
func (f *follower) sum(name string) *attempts {
	label := f.contracts.label(name)
	if f.sums[label] == nil {
		f.sums[label] = &attempts{}
	}
	return f.sums[label]
}

// newAttempts counts the attempts that were planned, and those that ended without a commit, from one state of a contract to a later one.
func newAttempts(before, after *state.Contract) (all, failed uint64) {
	if after.Run != before.Run {
		return after.Attempt, endedOf(after)
	}
	if after.Round() <= before.Round() {
		return less(after.Attempt, before.Attempt), less(endedOf(after), endedOf(before))
	}
	last := after.Committed.Attempt
	return less(last, before.Attempt) + after.Attempt, less(less(last, 1), endedOf(before)) + endedOf(after)
}

// endedOf counts the attempts of the next round that have ended.
func endedOf(c *state.Contract) uint64 {
	if c.Plan != nil {
		return less(c.Attempt, 1)
	}
	return c.Attempt
}

// less is a difference that is not negative.
func less(a, b uint64) uint64 { return max(a, b) - b }

// Describe implements prometheus.Collector.
func (f *follower) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.is.up, f.is.sessions, f.is.rounds, f.is.participants, f.is.tried, f.is.failed, f.is.waiting, f.is.since, f.is.assignments} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (f *follower) Collect(to chan<- prometheus.Metric) {
	v := f.state.View()
	f.collectNodes(to, v)
	f.collectContracts(to, v)
	f.collectAssignments(to, v)
	f.mu.Lock()
	defer f.mu.Unlock()
	for label, n := range f.sums {
		counter(to, f.is.tried, float64(n.all), label)
		counter(to, f.is.failed, float64(n.failed), label)
	}
}

// collectNodes tells which nodes are heard of. Of those beyond the bound it tells, for each role, whether all are.
func (f *follower) collectNodes(to chan<- prometheus.Metric, v *state.State) {
	f.nodes.keep(func(name string) bool { return v.Nodes[name] != nil })
	type key struct{ name, role string }
	up := map[key]bool{}
	for name, n := range v.Nodes {
		if n.Left() || v.Banned(n.PeerID) != nil {
			continue
		}
		k := key{f.nodes.label(name), n.Role}
		was, known := up[k]
		up[k] = n.Live && (was || !known)
	}
	for k, is := range up {
		gauge(to, f.is.up, truth(is), k.name, k.role)
	}
}

// collectContracts tells of contracts as they are now. Those beyond the bound are one.
func (f *follower) collectContracts(to chan<- prometheus.Metric, v *state.State) {
	type figures struct{ rounds, open, closed, participants int }
	sums := map[string]*figures{}
	var told []string
	for name := range v.Contracts {
		if f.contracts.label(name) != Other {
			told = append(told, name)
		}
	}
	waiting := f.waits.now(told, f.status)
	for name, c := range v.Contracts {
		label := f.contracts.label(name)
		n := sums[label]
		if n == nil {
			n = &figures{}
			sums[label] = n
		}
		n.rounds += int(c.Round()) //nolint:gosec // a count
		if c.Committed != nil {
			n.participants += len(c.Committed.Participants)
		}
		for _, s := range c.Active() {
			if s.State == state.SessionClosed {
				n.closed++
			} else {
				n.open++
			}
		}
		if label == Other {
			continue
		}
		if w := waiting[name]; w.Kind != "" {
			gauge(to, f.is.waiting, 1, label, string(w.Kind))
			if !w.Since.IsZero() {
				gauge(to, f.is.since, float64(w.Since.UnixMilli())/1000, label)
			}
		}
	}
	if n := sums[Other]; n != nil {
		n.rounds = f.grown(n.rounds)
	}
	for label, n := range sums {
		counter(to, f.is.rounds, float64(n.rounds), label)
		gauge(to, f.is.participants, float64(n.participants), label)
		gauge(to, f.is.sessions, float64(n.open), label, state.SessionOpen)
		gauge(to, f.is.sessions, float64(n.closed), label, state.SessionClosed)
	}
}

// collectAssignments tells how many there are, those that are over among them as long as the state keeps them.
func (f *follower) collectAssignments(to chan<- prometheus.Metric, v *state.State) {
	found := map[task.Phase]int{}
	for _, a := range v.Tasks.Whole().Assignments {
		found[a.Phase]++
	}
	for _, phase := range []task.Phase{task.Waiting, task.Preparing, task.Running, task.Ending, task.Over} {
		gauge(to, f.is.assignments, float64(found[phase]), string(phase))
	}
}

// grown keeps the rounds of contracts beyond the bound from falling when one of them is deleted: a counter that falls has begun anew, and all
// of it would count once more.
func (f *follower) grown(rounds int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.most = max(f.most, rounds)
	return f.most
}
