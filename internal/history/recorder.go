package history

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/text"
)

// Swarm is an SN's copy of the state and of the ledger.
type Swarm interface {
	View() *state.State
	Changed() <-chan struct{}
	// LedgerAfter returns whole records of the ledger behind the first n; none at its end.
	LedgerAfter(n uint64) ([]byte, error)
	// LeaderSeen is when this SN last had to do with a leader; zero: not yet.
	LeaderSeen() time.Time
}

const (
	// flush is how long what is told of a round gathers before it is written.
	flush = 500 * time.Millisecond
	// pull is how often an SN that does not lead asks for what it lacks.
	pull = time.Second
	// page bounds the rounds of one question.
	page = 500
	// settle is how long after a commit the leader may be told more of it.
	settle = 30 * time.Second
	// sweep is how long an SN that hears of a leader takes at most to know which contracts there are: until then its state may be that of a snapshot.
	sweep = time.Minute
	// again is how many of the newest rounds are asked for again: the leader may have been told more of them.
	again = 8
)

// Ask asks the SN that leads for rounds of a contract, in pages: ok is false if that is this SN, or nobody.
type Ask func(ctx context.Context, contract string, q Query) (part Part, ok bool, err error)

// Recorder writes what happens into a store: rounds as they are committed, and on the SN that leads what sessions report of them.
type Recorder struct {
	store *Store
	swarm Swarm
	ask   Ask
	log   *slog.Logger

	records uint64 // of the ledger that were read, for rounds that were not seen; Run alone uses it

	mu   sync.Mutex
	seen map[string]*training
	gaps map[string]gap // by contract
}

// gap are rounds that were committed between two looks at the state, as when an SN catches up.
type gap struct{ run, after, before uint64 }

// training is what this SN has seen of a contract's run.
type training struct {
	run       uint64
	committed *state.CommittedRound // the last one that was seen
	plan      *state.Plan           // likewise
	open      map[uint64]*Round     // rounds that may still be told more of
	dirty     map[uint64]bool       // those of them that are to be written
	ready     time.Time             // when the first session of the next round was; zero: none is
	done      map[uint64]time.Time  // when the last session had the merged model, by round
	sums      map[string]bytesSum   // by node
	failed    []failure             // attempts of rounds that are not committed
	pulled    uint64                // the newest round that the leader has shown
	fresh     time.Time             // when the last commit was seen
}

// bytesSum is what a node's merges have carried, as it said last.
type bytesSum struct{ sent, received uint64 }

type failure struct {
	round uint64
	Failed
}

// NewRecorder makes a recorder; Run runs it.
func NewRecorder(store *Store, swarm Swarm, ask Ask, log *slog.Logger) *Recorder {
	return &Recorder{store: store, swarm: swarm, ask: ask, log: log, seen: map[string]*training{}, gaps: map[string]gap{}}
}

// Run records until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	write, fetch := time.NewTicker(flush), time.NewTicker(pull)
	defer write.Stop()
	defer fetch.Stop()
	known := time.NewTimer(sweep)
	defer known.Stop()
	led := false // when known last fired
	for {
		changed := r.swarm.Changed()
		r.look()
		r.fill()
		select {
		case <-ctx.Done():
			r.write()
			return nil
		case <-changed:
		case <-write.C:
			r.write()
		case <-fetch.C:
			r.pull(ctx)
		case <-known.C:
			before := led
			if led = time.Since(r.swarm.LeaderSeen()) < sweep; led && before {
				r.sweep()
			} else {
				known.Reset(sweep)
			}
		}
	}
}

// look notes what the state shows: plans, commits, new runs, contracts that are gone.
func (r *Recorder) look() {
	view := r.swarm.View()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, c := range view.Contracts {
		t := r.trainingLocked(name, c.Run)
		if c.Plan != nil {
			t.plan = c.Plan
		}
		if c.Committed == nil || t.committed != nil && t.committed.Round >= c.Committed.Round {
			continue
		}
		r.commitLocked(name, t, c.Committed)
	}
	for name := range r.seen {
		if view.Contracts[name] == nil {
			delete(r.seen, name)
			r.store.Remove(name)
		}
	}
}

// sweep removes histories of contracts that were deleted while this SN was down.
func (r *Recorder) sweep() {
	view := r.swarm.View()
	for _, name := range r.store.Contracts() {
		if view.SwarmID != "" && view.Contracts[name] == nil {
			r.store.Remove(name)
		}
	}
}

// trainingLocked returns what was seen of a contract's run.
func (r *Recorder) trainingLocked(contract string, run uint64) *training {
	t := r.seen[contract]
	if t == nil || t.run < run {
		known, _ := r.store.Read(contract, Query{Most: 1}) // nothing is read where nothing is kept
		t = &training{run: run, open: map[uint64]*Round{}, dirty: map[uint64]bool{}, done: map[uint64]time.Time{}, sums: map[string]bytesSum{}}
		if known.Run == run {
			t.pulled = known.Last
		}
		r.seen[contract] = t
	}
	return t
}

// commitLocked begins the record of a round that was committed, or goes on with that which is kept.
func (r *Recorder) commitLocked(contract string, t *training, c *state.CommittedRound) {
	before := t.committed
	if before != nil && before.Round+1 < c.Round {
		r.gaps[contract] = gap{t.run, before.Round, c.Round}
	}
	t.committed, t.fresh = c, time.Now()
	out := r.store.Get(contract, t.run, c.Round)
	if out == nil {
		out = &Round{Round: c.Round}
	}
	out.Attempt, out.Digest, out.PlannedMS, out.CommittedMS = c.Attempt, c.Digest, c.PlannedMS, c.CommittedMS
	for _, node := range c.Participants {
		p := out.peer(node)
		if p == nil {
			break
		}
		p.Contributed = true
		if t.plan != nil && t.plan.Round == c.Round && t.plan.Attempt == c.Attempt {
			for _, x := range t.plan.Participants {
				if x.Node == node {
					p.Weight, p.Contributed = &x.Weight, x.Weight > 0
				}
			}
		}
	}
	slices.SortFunc(out.Peers, func(a, b Peer) int { return strings.Compare(a.Node, b.Node) })
	phases(out, before, t.ready, t.done[c.Round])
	for _, f := range t.failed {
		if f.round == c.Round && len(out.Failed) < maxFailed && !slices.ContainsFunc(out.Failed, func(have Failed) bool { return have.Attempt == f.Attempt && have.Blamed == f.Blamed }) {
			out.Failed = append(out.Failed, f.Failed)
		}
	}
	t.failed, t.ready = nil, time.Time{}
	t.open[c.Round], t.dirty[c.Round] = out, true
	for round := range t.open {
		if round+again < c.Round && !t.dirty[round] {
			delete(t.open, round)
		}
	}
	for round := range t.done {
		if round <= c.Round {
			delete(t.done, round)
		}
	}
}

// fill begins records of rounds in gaps, by what the ledger says of them.
func (r *Recorder) fill() {
	r.mu.Lock()
	gaps := r.gaps
	r.gaps = map[string]gap{}
	r.mu.Unlock()
	for len(gaps) > 0 {
		data, err := r.swarm.LedgerAfter(r.records)
		if err != nil || len(data) == 0 { // what is missing here comes from the SN that leads
			return
		}
		for len(data) > 0 {
			line, rest, ok := ledger.CutLine(data)
			if !ok {
				return
			}
			record, body, err := ledger.Parse(line)
			if err != nil {
				return
			}
			if of, ok := body.(ledger.Round); ok {
				if g := gaps[of.Contract]; g.run == of.Run && g.after < of.Round && of.Round < g.before {
					r.proven(record.AtMS, of)
				}
			}
			r.records++
			data = rest
		}
	}
}

// proven begins the record of a round that the ledger has.
func (r *Recorder) proven(atMS int64, of ledger.Round) {
	out := &Round{Round: of.Round, Attempt: of.Attempt, CommittedMS: atMS, Digest: of.Model}
	for _, x := range of.Participants {
		if p := out.peer(x.Node); p != nil {
			p.Weight, p.Contributed = &x.Weight, x.Weight > 0
		}
	}
	slices.SortFunc(out.Peers, func(a, b Peer) int { return strings.Compare(a.Node, b.Node) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.seen[of.Contract]; t != nil && t.run == of.Run && r.store.Get(of.Contract, of.Run, of.Round) == nil {
		t.open[of.Round], t.dirty[of.Round] = out, true
	}
}

// phases says how long the phases of a round took, as far as is known.
func phases(r *Round, before *state.CommittedRound, ready, done time.Time) {
	span := func(from, to int64) *uint64 {
		if from == 0 || to == 0 {
			return nil
		}
		ms := uint64(max(0, to-from)) //nolint:gosec // it is not negative
		return &ms
	}
	readyMS, doneMS := int64(0), int64(0)
	if !ready.IsZero() {
		readyMS = min(ready.UnixMilli(), r.PlannedMS)
	}
	if !done.IsZero() {
		doneMS = min(done.UnixMilli(), r.CommittedMS)
	}
	r.Waiting, r.Exchange, r.Commit = span(readyMS, r.PlannedMS), span(r.PlannedMS, doneMS), span(doneMS, r.CommittedMS)
	if before != nil && before.Round+1 == r.Round {
		r.Training = span(before.CommittedMS, readyMS)
	}
}

// Observe takes what a session reports to the SN that leads.
func (r *Recorder) Observe(report reports.Report) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.seen[report.Contract]
	if t == nil || t.run != report.Run {
		return
	}
	if report.Ready != nil && t.ready.IsZero() {
		t.ready = now
	}
	if d := report.Done; d != nil && (t.committed == nil || d.Round > t.committed.Round) {
		if _, told := t.done[d.Round]; told || len(t.done) < again {
			t.done[d.Round] = now
		}
	}
	if f := report.Failed; f != nil && len(t.failed) < maxFailed && !slices.ContainsFunc(t.failed, func(have failure) bool { return have.round == f.Round && have.Attempt == f.Attempt }) {
		t.failed = append(t.failed, failure{f.Round, Failed{f.Attempt, text.Clip(text.Line(f.Blamed), maxReason), text.Clip(text.Line(f.Reason), maxReason), now.UnixMilli()}})
	}
	t.progress(report)
}

// progress takes what a program tells of the model of a round, and what its node's merges have carried.
func (t *training) progress(report reports.Report) {
	p := report.Progress
	if p == nil {
		return
	}
	newest := t.open[committedRound(t.committed)]
	sum := bytesSum{p.SentBytes, p.ReceivedBytes}
	if old, known := t.sums[report.Node]; sum != old && (known || len(t.sums) < MaxPeers) {
		t.sums[report.Node] = sum // where there is none before, it is of rounds that this SN has not led
		if newest == nil || !known || sum.sent < old.sent || sum.received < old.received {
			// nothing of it is known to be of this round
		} else if peer := newest.peer(report.Node); peer != nil {
			peer.Sent, peer.Received = plus(peer.Sent, sum.sent-old.sent), plus(peer.Received, sum.received-old.received)
			t.dirty[newest.Round] = true
		}
	}
	of := t.open[p.Round]
	if of == nil || !p.HasLoss && !p.HasMetric {
		return
	}
	peer := of.peer(report.Node)
	if peer == nil {
		return
	}
	loss, metric := told(p.HasLoss, p.Loss), told(p.HasMetric, p.Metric)
	if !equal(peer.Loss, loss) || !equal(peer.Metric, metric) {
		peer.Loss, peer.Metric, t.dirty[of.Round] = loss, metric, true
	}
}

func committedRound(c *state.CommittedRound) uint64 {
	if c == nil {
		return 0
	}
	return c.Round
}

func plus(have *uint64, more uint64) *uint64 {
	if have != nil {
		more += *have
	}
	return &more
}

func equal(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }

// told drops what was not told, and what JSON can't carry.
func told(has bool, f float64) *float64 {
	if !has || f-f != 0 {
		return nil
	}
	return &f
}

// write writes what is new. No report waits for the disk meanwhile.
func (r *Recorder) write() {
	for _, w := range r.unwritten() {
		if err := r.store.Put(w.contract, w.run, w.of); err != nil {
			r.log.Warn("could not keep a round's history: curves will lack it; is the disk full?", "contract", w.contract, "round", w.of.Round, "err", err)
		}
	}
}

type unwritten struct {
	contract string
	run      uint64
	of       *Round
}

// unwritten returns copies of what is new, which counts as written from then on.
func (r *Recorder) unwritten() (out []unwritten) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for contract, t := range r.seen {
		for _, round := range slices.Sorted(maps.Keys(t.dirty)) {
			if of := t.open[round]; of != nil {
				one := *of
				one.Peers, one.Failed = slices.Clone(of.Peers), slices.Clone(of.Failed)
				out = append(out, unwritten{contract, t.run, &one})
			}
		}
		clear(t.dirty)
	}
	return out
}

// pull asks the leader for what this SN lacks.
func (r *Recorder) pull(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 8*pull)
	defer cancel()
	for contract, after := range r.lacks() {
		for {
			part, ok, err := r.ask(ctx, contract, Query{After: after, Most: page})
			if err != nil {
				r.log.DebugContext(ctx, "could not ask the leader for a contract's history", "contract", contract, "err", err)
				return
			}
			if !ok {
				return
			}
			r.take(contract, part)
			if len(part.Rounds) < page || part.Rounds[len(part.Rounds)-1].Round <= after {
				break
			}
			after = part.Rounds[len(part.Rounds)-1].Round
		}
	}
}

// lacks are the contracts of which the leader may know more, with the round behind which it is asked.
func (r *Recorder) lacks() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]uint64{}
	for contract, t := range r.seen {
		if t.committed != nil && (t.pulled < t.committed.Round || time.Since(t.fresh) < settle) {
			out[contract] = t.pulled - min(t.pulled, again)
		}
	}
	return out
}

// take keeps what the leader knows more of.
func (r *Recorder) take(contract string, part Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.seen[contract]
	if t == nil || t.run != part.Run {
		return
	}
	for _, theirs := range part.Rounds {
		if t.committed == nil || theirs.Round > t.committed.Round {
			break // its time comes when it is seen here
		}
		t.pulled = max(t.pulled, theirs.Round)
		mine := t.open[theirs.Round]
		if mine == nil {
			mine = r.store.Get(contract, t.run, theirs.Round)
		}
		if mine != nil && mine.Knows() >= theirs.Knows() {
			continue
		}
		if t.open[theirs.Round] != nil {
			t.open[theirs.Round] = theirs
		}
		if err := r.store.Put(contract, t.run, theirs); err != nil {
			r.log.Warn("could not keep a round's history: curves will lack it; is the disk full?", "contract", contract, "round", theirs.Round, "err", err)
		}
	}
}
