package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/attemptlog"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/internal/session/recipients"
	"github.com/swarmd/swarmd/internal/trust"
	"github.com/swarmd/swarmd/merge"
)

// attempts is a session's part in attempts of rounds: at most one at a time, and none twice.
type attempts struct {
	s      *session
	newest attemptState
	named  struct { // by Exchange.Planned
		plan *round.Plan
		as   string
	}
	sent  *recipients.Record // what may have gone to whom of what is offered, or frozen
	begun *attemptlog.Record
}

// attemptState is this node's part in the newest attempt that it was planned for.
type attemptState struct {
	run, round, number uint64
	plan               string             // as Exchange.Planned names it: an SN may show another one under the same number
	stop               context.CancelFunc // nil when nothing runs
	done               *round.Done        // all that can be said
	short              *round.Done        // what is said as long as nobody asks
	job                Job                // that done is about
	asked, full        bool               // the leader asks for all; it can be said
	planned            *round.Plan
	failed             *round.Failed
}

func (a *attemptState) running() bool { return a.stop != nil }

// attemptOfLocked is the attempt of the plan before anything is done.
func (at *attempts) attemptOfLocked(p *round.Plan) attemptState {
	return attemptState{run: p.Run, round: p.Round, number: p.Attempt, plan: at.plannedLocked(p)}
}

// atLocked reports whether this node's newest attempt is that of the plan.
func (at *attempts) atLocked(p *round.Plan) bool {
	a := &at.newest
	return a.run == p.Run && a.round == p.Round && a.number == p.Attempt && a.plan == at.plannedLocked(p)
}

// plannedLocked is what Exchange.Planned says of a plan. Each report asks for that of the view's.
func (at *attempts) plannedLocked(p *round.Plan) string {
	s := at.s
	if at.named.plan != p {
		at.named.plan, at.named.as = p, s.engine.cfg.Exchange.Planned(Job{Contract: s.contract, Plan: p, Layout: s.model.form.Layout})
	}
	return at.named.as
}

// reconcileLocked does the next step towards what the contract says. It starts tasks and returns at once.
func (s *session) reconcileLocked() {
	if s.err != nil || s.view.Index == 0 {
		return
	}
	s.peers.learnLocked() // once finished, of those who may come for the final model
	if s.program.finished {
		return
	}
	s.model.adoptLocked()
	if s.view.Over && s.model.held.Exists() {
		s.model.copies.keepLocked() // it may have been copied before it was known to be the final one
	}
	s.program.answerLocked()
	s.program.skipLocked()
	s.norm.measureLocked()
	s.attempts.followPlanLocked()
}

// adoptLocked makes the committed model this node's own: by turning the slots when it was merged here, by fetching it
// otherwise. A node in the middle of its training does not fetch: the model may be outdated when it is needed.
func (inv *inventory) adoptLocked() {
	s := inv.s
	want := s.view.Model()
	if want.Round == 0 && !inv.held.Exists() && !inv.base.Exists() {
		inv.held, inv.base = want, want // rounds without a model were another SN's word
	}
	if inv.held == want || want.Round == 0 {
		return
	}
	c := s.view.Committed
	if d := s.attempts.newest.done; d != nil && s.attempts.newest.run == s.run && d.Round == want.Round && d.Attempt == c.Attempt && d.ModelDigest == want.Digest &&
		d.StateDigest == want.State {
		inv.copies.signed.Add(s.attempts.newest.planned, inv.form.Layout.Digest().String(), d)
		inv.holdLocked(want, s.attempts.newest.done.Leaves)
		return
	}
	if c.Attempt == 0 && inv.rollBackLocked(want) {
		return
	}
	if (s.program.offered == nil && !s.program.closing) || inv.fetching {
		return
	}
	if s.attempts.newest.running() {
		s.attempts.newest.stop() // its task calls for the next reconciliation when it has ended
		return
	}
	inv.fetching = true
	if s.attempts.newest.failed == nil { // which is to be told
		s.attempts.newest = attemptState{} // what an attempt left in the merging slot is overwritten
	}
	holders, unjudged := s.peers.accepted(inv.holdersLocked())
	if unreached := s.engine.cfg.Unreached; unreached != nil {
		holders = reachableFirst(holders, unreached(s.contract))
	}
	e, ref := s.engine, round.Ref{Contract: s.contract, Run: s.run, Model: want}
	s.lifecycle.spawnLocked(func() {
		dst := inv.slots.Merging() // it may have to be made, which takes as long as the system needs for so much memory
		leaves, err := inv.findLocal(dst, ref)
		if err != nil {
			leaves, err = inv.fetch(s.lifecycle.ctx, holders, unjudged, ref, dst)
		}
		if err == nil {
			inv.slots.Merged(models.Note(ref))
		}
		if err != nil && s.lifecycle.ctx.Err() == nil {
			e.mu.Lock()
			inv.fetchFailedLocked(want, err)
			e.mu.Unlock()
			pause(s.lifecycle.ctx, e.cfg.RetryFetch)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		inv.fetching = false
		if err == nil && !s.ended() {
			inv.holdLocked(want, leaves)
		}
		e.poke()
	})
}

// holdLocked turns the slots: the merging one holds the committed model m, with these digests of its leaves.
func (inv *inventory) holdLocked(m round.Model, leaves []merge.Digest) {
	s := inv.s
	inv.heldSlot, inv.leaves, inv.turn = inv.slots.Commit(), leaves, inv.turn+1
	inv.held, inv.fetchErr, inv.fetchLog, inv.lostSince = m, nil, fetchLog{}, time.Time{}
	s.recordLocked()
	inv.copies.keepLocked()
	s.lifecycle.notifyLocked()
	signal(s.engine.toReport)
	signal(s.engine.wake)
}

// holdersLocked lists the nodes that may hold the committed model, best first.
func (inv *inventory) holdersLocked() []*round.Session {
	s := inv.s
	var first, second []*round.Session
	for _, m := range s.view.Sessions {
		switch {
		case m.Node == s.engine.cfg.Peer || !m.Live:
		case slices.Contains(s.view.Committed.Participants, m.Node):
			first = append(first, m)
		default:
			second = append(second, m)
		}
	}
	return append(first, second...)
}

// reachableFirst has those come last that could not be dialled and have no connection with this node: each costs the time of a dial, in which
// the others may merge the next model.
func reachableFirst(holders []*round.Session, unreached []round.Unreached) []*round.Session {
	shut := map[string]bool{}
	for _, u := range unreached {
		shut[u.Node] = !u.Linked
	}
	first, last := make([]*round.Session, 0, len(holders)), []*round.Session(nil)
	for _, h := range holders {
		if shut[h.Node] {
			last = append(last, h)
		} else {
			first = append(first, h)
		}
	}
	return append(first, last...)
}

// fetch tries each holder once and checks what it got. Those that are not judged yet may have the model. It returns the digests
// of the model's leaves.
func (inv *inventory) fetch(ctx context.Context, holders []*round.Session, unjudged []error, ref round.Ref, dst models.Slot) (leaves []merge.Digest, _ error) {
	s := inv.s
	var nowhere error
	switch other := func(err error) bool { return !errors.Is(err, trust.ErrUnknown) }; {
	case len(unjudged) > 0 && len(holders) == 0 && !slices.ContainsFunc(unjudged, other):
		nowhere = errUnjudged
	case len(unjudged) == 0:
		nowhere = fmt.Errorf("%w of round %d", errNowhere, ref.Round)
	}
	errs := slices.Clip(unjudged)
	for _, h := range holders {
		err := s.engine.cfg.Exchange.Fetch(ctx, h, ref, inv.form.Bytes(), dst)
		if err == nil {
			leaves, err = inv.form.Verify(dst, ref.Model)
		}
		if err == nil {
			return leaves, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !refused(err) {
			nowhere = nil
		}
		errs = append(errs, fmt.Errorf("from %s: %w", h.Node, err))
	}
	return nil, errors.Join(append([]error{nowhere}, errs...)...)
}

// answerLocked gives the waiting program what the swarm committed.
func (pr *program) answerLocked() {
	s := pr.s
	if s.model.held != s.view.Model() || !s.model.held.Exists() || s.program.training.busy {
		return
	}
	c := s.view.Committed
	// The rounds of a run only go up; a base beyond what is held is of a model that was never committed, and so is one of the same round
	// that is another model: SNs that were restored from a backup knew nothing of it.
	if o := pr.offered; o != nil && (s.model.held != s.model.base || s.view.Over) {
		pr.last = pr.resultLocked(o.seq)
		pr.lastSeq, pr.offered, s.model.base = o.seq, nil, s.model.held
		s.recordLocked()
		s.engine.cfg.Log.Info("model handed to the program", "contract", s.contract, "round", c.Round,
			"participants", len(c.Participants), "contributed", pr.last.Contributed)
		s.lifecycle.notifyLocked()
		signal(s.engine.toReport)
	}
	if pr.closing && s.view.Over {
		s.lifecycle.notifyLocked()
	}
}

func (pr *program) resultLocked(seq uint64) *wire.SyncResponse {
	s := pr.s
	c := s.view.Committed
	r := &wire.SyncResponse{
		Round: c.Round, Slot: s.model.heldSlot, Digest: c.Digest, Interval: max(int(c.NextInterval), 1),
		Participants: c.Participants, TrainingOver: s.view.Over,
	}
	if m := s.view.Session(s.id); m != nil {
		r.Contributed = m.LastRound == c.Round && m.LastSeq >= seq // what it left when it closed counts on, under later numbers
	}
	return r
}

// followPlanLocked starts this node's part of the current attempt and abandons an older one.
func (at *attempts) followPlanLocked() {
	s := at.s
	p := s.view.Plan
	if at.newest.running() && (p == nil || !at.atLocked(p)) {
		at.newest.stop()
		return
	}
	if p == nil || at.atLocked(p) || s.model.fetching || s.model.held != s.view.Model() || p.Round != s.model.held.Round+1 {
		return
	}
	self := slices.IndexFunc(p.Participants, func(m *round.Participant) bool { return m.Session == s.id })
	if self < 0 {
		return
	}
	if !s.program.closed && (s.program.offered == nil || s.program.offered.seq != p.Participants[self].Seq) {
		return // planned on a report of a previous run of this session
	}
	if !at.acceptsLocked(p, self) {
		return
	}
	job := Job{
		Contract: s.contract, Plan: p, Self: self, Layout: s.model.form.Layout, Source: s.program.sourceLocked(), Turn: s.model.turn,
		Spool: s.model.spool, Stash: s.model.stash,
	}
	if s.model.held.Exists() {
		job.Base = &models.Base{ReaderAt: s.model.slots.Committed(), Layout: s.model.form.Layout, Leaves: s.model.leaves}
	}
	if at.journalLocked(job) {
		at.mergeLocked(job)
	}
}

func (at *attempts) mergeLocked(job Job) {
	s := at.s
	ctx, stop := context.WithCancel(s.lifecycle.ctx)
	p := job.Plan
	at.newest = at.attemptOfLocked(p)
	at.newest.stop, at.newest.planned = stop, p
	signal(s.engine.toReport)
	e, base := s.engine, s.model.held
	s.lifecycle.spawnLocked(func() {
		defer stop()
		job.Merging = s.model.slots.Merging() // not within the lock, as above
		done, failed := e.cfg.Exchange.Merge(ctx, job)
		if done != nil { // not when it is committed: that is within the lock, and heartbeats wait for it
			s.model.slots.Merged(models.Note(round.Ref{Contract: s.contract, Run: p.Run, Model: round.Model{Round: p.Round, Digest: done.ModelDigest, State: done.StateDigest}}))
		}
		var local error
		if failed != nil && failed.Blamed == e.cfg.Peer {
			if local = checkLocal(job); local == nil && job.Base != nil {
				s.model.repair(base)
			}
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		at.newest.stop = nil
		switch {
		case done != nil:
			at.newest.doneWith(job, done)
		case failed != nil:
			at.newest.failed = failed
			e.cfg.Log.Warn("attempt of a round failed", "contract", s.contract, "round", p.Round, "attempt", p.Attempt,
				"blamed", failed.Blamed, "reason", failed.Reason)
			if local != nil {
				s.giveUpLocked(local)
			}
		default:
			at.newest = attemptState{} // superseded
		}
		e.poke()
	})
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
