package history

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
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
	// IsLeader reports whether this SN leads.
	IsLeader() bool
}

const (
	// flush is how long what is told of a round gathers before it is written.
	flush = 500 * time.Millisecond
	// sweep is how long an SN that hears of a leader takes at most to know which contracts there are: until then its state may be that of a snapshot.
	sweep = time.Minute
	// again is how many of the newest rounds are asked for again: the leader may have been told more of them.
	again = 8
	// rest is how long nothing is written after a write has failed.
	rest = 10 * time.Second
	// maxUnwritten bounds the rounds of a contract that wait for a disk.
	maxUnwritten = 200
	// maxHeard bounds the reports that wait for Run, as while it waits for a disk.
	maxHeard = 4096
)

// Recorder writes what happens into a store: rounds as they are committed, and on the SN that leads what sessions report of them. All but
// Observe is Run's alone, so nobody waits for it while it waits for a disk.
type Recorder struct {
	store  *Store
	swarm  Swarm
	source Source
	log    *slog.Logger

	heard  chan reports.Report
	missed atomic.Uint64 // reports for which there was no room

	seen   map[string]*training
	behind reading             // of the ledger
	led    bool                // this SN led at the last look
	served string              // the contract that other SNs were asked for last
	failed bool                // the last write has failed
	rests  time.Time           // until when nothing is written
	unread map[place]time.Time // until when a record is not read, as the disk did not give it out
	warned time.Time           // when another SN was last blamed
}

// place says which record is meant.
type place struct {
	contract   string
	run, round uint64
}

// training is what this SN has seen of a contract's run.
type training struct {
	run       uint64
	whole     uint64                // up to which round none was missing at first, and the ledger had no more to say
	committed *state.CommittedRound // the last one that was seen
	plan      *state.Plan           // likewise
	open      map[uint64]*Round     // rounds that may still be told more of
	dirty     map[uint64]bool       // those of them that are to be written
	ready     time.Time             // when the first session of the next round was; zero: none is
	done      map[uint64]time.Time  // when the last session had the merged model, by round
	nodes     map[string]word       // by node
	attempts  []failure             // that failed, of rounds that are not committed
	fresh     time.Time             // when the last commit was seen
	debt      debt
}

// word is what a node has said last.
type word struct {
	session        string
	number         uint64
	sent, received uint64    // what its merges have carried
	counted        bool      // these are known
	round          uint64    // of which it told the loss
	done           [2]uint64 // round and attempt of which it had the merged model
}

type failure struct {
	round uint64
	Failed
}

// NewRecorder makes a recorder; Run runs it.
func NewRecorder(store *Store, swarm Swarm, source Source, log *slog.Logger) *Recorder {
	return &Recorder{store: store, swarm: swarm, source: source, log: log, seen: map[string]*training{}, unread: map[place]time.Time{}, heard: make(chan reports.Report, maxHeard)}
}

// Observe takes what a session reports to the SN that leads, where it says nothing older than it did before. It does not block.
func (r *Recorder) Observe(report reports.Report) {
	report.At = time.Now()
	report.Held, report.Trained, report.Signed, report.Proofs, report.Unreached = nil, nil, nil, nil, nil
	if d := report.Done; d != nil {
		report.Done = &round.Done{Round: d.Round, Attempt: d.Attempt}
	}
	select {
	case r.heard <- report:
	default:
		r.missed.Add(1)
	}
}

// Run records until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	errands, answers := make(chan errand, 1), make(chan answer)
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asking.Go(func() { r.run(ctx, errands, answers) })
	write := time.NewTicker(flush)
	defer write.Stop()
	known := time.NewTimer(sweep)
	defer known.Stop()
	now := make(chan struct{})
	close(now)
	led, busy := false, false // led: when known last fired
	for {
		changed := r.swarm.Changed()
		r.look()
		var more chan struct{}
		if r.fill() {
			more = now
		}
		r.lead()
		if !busy {
			if e, ok := r.errand(); ok {
				errands <- e
				busy = true
			}
		}
		select {
		case <-ctx.Done():
			r.rests = time.Time{}
			r.hearAll()
			r.write()
			return nil
		case <-changed:
		case <-more:
		case report := <-r.heard:
			r.look() // of what it tells there is no sign in the state before
			r.hear(report)
			r.hearAll()
		case <-write.C:
			r.write()
		case a := <-answers:
			busy = false
			r.answered(a)
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

// hearAll takes all reports that wait.
func (r *Recorder) hearAll() {
	for range len(r.heard) {
		r.hear(<-r.heard)
	}
}

// look notes what the state shows: plans, commits, new runs, contracts that are gone.
func (r *Recorder) look() {
	view := r.swarm.View()
	length := view.LedgerHead().Length
	waits := false // a contract is looked at again, and the ledger is to be read from here then
	for name, c := range view.Contracts {
		t, begun := r.training(name, c)
		if c.Plan != nil {
			t.plan = c.Plan
		}
		if c.Committed == nil || t.committed != nil && t.committed.Round >= c.Committed.Round {
			continue
		}
		kept, err := r.kept(name, t.run, c.Committed.Round)
		if err != nil {
			if begun {
				delete(r.seen, name) // and it begins at the next look
			} else {
				waits = true
			}
			continue
		}
		from := r.behind.seen
		after := t.whole
		if t.committed != nil {
			after = t.committed.Round
		}
		if begun { // before this SN has seen it
			from = 0
			r.owe(t, c.Committed.Round)
		}
		whole := r.commit(name, t, c.Committed, kept)
		if after+1 < c.Committed.Round || !whole {
			r.behind.note(gap{name, t.run, after, c.Committed.Round + 1}, from, length)
		}
	}
	if !waits {
		r.behind.seen = length
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

// training returns what was seen of a contract's run, and whether this is the first time. Of runs before it only those stay that are of the same
// contract, and no other one of its name.
func (r *Recorder) training(contract string, c *state.Contract) (t *training, begun bool) {
	run := c.Run
	t = r.seen[contract]
	if begun = t == nil || t.run < run; begun {
		if t != nil && r.writeOf(contract, t) != nil {
			r.log.Warn("the last rounds of a contract's run that is over are given up, as the disk takes nothing: its curves will lack them; free space on the disk of the state directory",
				"contract", contract, "run", t.run, "rounds", len(t.dirty))
		}
		r.store.Forget(contract, run, c.CreatedMS)
		t = &training{run: run, open: map[uint64]*Round{}, dirty: map[uint64]bool{}, done: map[uint64]time.Time{}, nodes: map[string]word{}}
		if kept, round := r.store.Whole(contract); kept == run {
			t.whole, t.debt.pulled = round, min(round, r.store.Asked(contract, run))
			if first := r.store.Unproven(contract, run); first > 0 {
				t.whole = min(t.whole, first-1)
			}
		}
		r.seen[contract] = t
	}
	return t, begun
}

// commit begins the record of a round that was committed, or goes on with that which is kept, if any. It reports whether nothing is left for the
// ledger to say of it.
func (r *Recorder) commit(contract string, t *training, c *state.CommittedRound, kept *Round) bool {
	before := t.committed
	t.committed, t.fresh = c, time.Now()
	t.debt.committed(r.led, c.Round)
	out := kept
	if out == nil {
		out = &Round{Round: c.Round}
	}
	out.own(c.Attempt, c.Participants, r.knows)
	out.Attempt, out.Digest, out.PlannedMS, out.CommittedMS = c.Attempt, c.Digest, c.PlannedMS, c.CommittedMS
	for _, node := range c.Participants {
		p := out.peer(node)
		if p == nil {
			break
		}
		p.Contributed = p.Weight == nil || *p.Weight > 0
		if t.plan != nil && t.plan.Round == c.Round && t.plan.Attempt == c.Attempt {
			for _, x := range t.plan.Participants {
				if x.Node == node {
					p.Weight, p.Contributed = &x.Weight, x.Weight > 0
				}
			}
		}
	}
	out.sort()
	phases(out, before, t.ready, t.done[c.Round])
	var failed []Failed
	for _, f := range t.attempts {
		if f.round == c.Round {
			failed = append(failed, f.Failed)
		}
	}
	out.failFirst(failed)
	t.attempts, t.ready = nil, time.Time{}
	t.open[c.Round], t.dirty[c.Round] = out, true
	maps.DeleteFunc(t.open, func(round uint64, _ *Round) bool { return round+again < c.Round && !t.dirty[round] })
	maps.DeleteFunc(t.done, func(round uint64, _ time.Time) bool { return round <= c.Round })
	if len(t.dirty) > maxUnwritten {
		oldest := uint64(math.MaxUint64)
		for round := range t.dirty {
			oldest = min(oldest, round)
		}
		r.log.Warn("a round's history is given up, as the disk takes nothing: curves will lack it; free space on the disk of the state directory", "contract", contract, "round", oldest)
		delete(t.dirty, oldest)
		delete(t.open, oldest)
	}
	return out.whole()
}

// knows reports whether the state has a node: others are believed no names.
func (r *Recorder) knows(node string) bool { return r.swarm.View().Nodes[node] != nil }

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
	learn(&r.Waiting, span(readyMS, r.PlannedMS), true)
	learn(&r.Exchange, span(r.PlannedMS, doneMS), true)
	learn(&r.Commit, span(doneMS, r.CommittedMS), true)
	if before != nil && before.Round+1 == r.Round {
		learn(&r.Training, span(before.CommittedMS, readyMS), true)
	}
}

// hear takes what a session reports.
func (r *Recorder) hear(report reports.Report) {
	t := r.seen[report.Contract]
	if t == nil || t.run != report.Run {
		return
	}
	c := r.swarm.View().Contracts[report.Contract]
	if c != nil && c.Sessions[report.Session] != nil && c.Sessions[report.Session].State == state.SessionEnded {
		return // repeated by who passes reports on
	}
	said, known := t.nodes[report.Node]
	if !known && len(t.nodes) >= MaxPeers {
		maps.DeleteFunc(t.nodes, func(_ string, w word) bool {
			return c == nil || c.Sessions[w.session] == nil || c.Sessions[w.session].State == state.SessionEnded
		})
		if len(t.nodes) >= MaxPeers {
			return // no contract has so many open sessions
		}
	}
	same := said.session == report.Session
	if same && report.Number < said.number {
		return // two crossed on their way
	}
	if report.Ready != nil && t.ready.IsZero() && report.Ready.BaseRound == committedRound(t.committed) {
		t.ready = report.At
	}
	if d := report.Done; d != nil && d.Round > committedRound(t.committed) && said.done != [2]uint64{d.Round, d.Attempt} {
		if _, told := t.done[d.Round]; told || len(t.done) < again {
			t.done[d.Round], said.done = report.At, [2]uint64{d.Round, d.Attempt}
		}
	}
	if f := report.Failed; f != nil && len(t.attempts) < maxFailed && !slices.ContainsFunc(t.attempts, func(have failure) bool { return have.round == f.Round && have.Attempt == f.Attempt }) {
		t.attempts = append(t.attempts, failure{f.Round, Failed{f.Attempt, text.Clip(text.Line(f.Blamed), maxReason), text.Clip(text.Line(f.Reason), maxReason), report.At.UnixMilli()}})
	}
	if p := report.Progress; p != nil {
		old := same && report.Number == said.number && (p.SentBytes < said.sent || p.ReceivedBytes < said.received || p.Round < said.round)
		if !old { // the number does not count what is told of progress
			said = t.progress(report.Node, p, said)
		}
	}
	said.session, said.number = report.Session, report.Number
	t.nodes[report.Node] = said
}

// progress takes what a program tells of the model of a round, and what its node's merges have carried.
func (t *training) progress(node string, p *round.Progress, said word) word {
	newest := t.open[committedRound(t.committed)]
	if p.SentBytes != said.sent || p.ReceivedBytes != said.received {
		if newest == nil || !said.counted || p.SentBytes < said.sent || p.ReceivedBytes < said.received {
			// nothing of it is known to be of this round
		} else if peer := newest.peer(node); peer != nil {
			peer.Sent, peer.Received = plus(peer.Sent, p.SentBytes-said.sent), plus(peer.Received, p.ReceivedBytes-said.received)
			t.dirty[newest.Round] = true
		}
	}
	said.sent, said.received, said.counted, said.round = p.SentBytes, p.ReceivedBytes, true, p.Round
	of := t.open[p.Round]
	if of == nil || !p.HasLoss && !p.HasMetric {
		return said
	}
	peer := of.peer(node)
	if peer == nil {
		return said
	}
	loss, metric := told(p.HasLoss, p.Loss), told(p.HasMetric, p.Metric)
	name := ""
	if metric != nil {
		name = p.MetricName
	}
	if !equal(peer.Loss, loss) || !equal(peer.Metric, metric) || peer.MetricName != name {
		peer.Loss, peer.Metric, peer.MetricName, t.dirty[of.Round] = loss, metric, name, true
	}
	return said
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
	if !has {
		return nil
	}
	return orNil(&f)
}

// write writes what is new. What can't be written now is tried again.
func (r *Recorder) write() {
	if n := r.missed.Swap(0); n > 0 {
		r.log.Warn("reports came faster than the history of rounds is written: curves may lack some of their figures; is the disk slow?", "reports", n)
	}
	if time.Now().Before(r.rests) {
		return
	}
	for contract, t := range r.seen {
		if r.writeOf(contract, t) != nil {
			return
		}
	}
}

// writeOf writes what is new of a contract's run.
func (r *Recorder) writeOf(contract string, t *training) error {
	for _, round := range slices.Sorted(maps.Keys(t.dirty)) {
		if of := t.open[round]; of != nil {
			if err := r.keep(contract, t.run, of); err != nil {
				return err
			}
		}
		delete(t.dirty, round)
	}
	return nil
}

// resting reports whether nothing is to be asked for that would be written, as a write has failed a moment ago.
func (r *Recorder) resting() bool { return time.Now().Before(r.rests) }

// keep writes a record. On an error it is to be tried again.
func (r *Recorder) keep(contract string, run uint64, of *Round) error {
	if t := r.seen[contract]; t != nil && t.run == run {
		of.Asked = t.debt.asked()
	}
	err := r.store.Put(contract, run, of)
	if errors.Is(err, errRecord) {
		r.log.Warn("a round's history can't be kept: curves will lack it", "contract", contract, "round", of.Round, "err", err)
		return nil
	}
	if err != nil {
		if !r.failed {
			r.log.Warn("could not keep a round's history; it is tried again: free space on the disk of the state directory, and check that disk", "contract", contract, "round", of.Round, "err", err)
		}
		r.failed, r.rests = true, time.Now().Add(rest)
		return err
	}
	if r.failed {
		r.failed = false
		r.log.Info("the history of rounds is kept again")
	}
	return nil
}

// errUnread reports that a record is not read, as the disk did not give it out a moment ago.
var errUnread = errors.New("the record of the round is not read just now")

// kept returns what is kept of a round; nil without an error: nothing. On an error it is to be tried again, so that no poorer record takes its
// place.
func (r *Recorder) kept(contract string, run, round uint64) (*Round, error) {
	at := place{contract, run, round}
	if time.Now().Before(r.unread[at]) {
		return nil, errUnread
	}
	of, err := r.store.Get(contract, run, round)
	if err != nil {
		maps.DeleteFunc(r.unread, func(_ place, until time.Time) bool { return time.Since(until) > time.Minute })
		if len(r.unread) == 0 {
			r.log.Warn("could not read a round's history; it is tried again for some minutes: check the disk of the state directory", "contract", contract, "round", round, "err", err)
		}
		r.unread[at] = time.Now().Add(rest)
	}
	return of, err
}
