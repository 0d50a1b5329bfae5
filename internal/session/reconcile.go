package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

// attemptState is this node's part in the newest attempt that it was planned for.
type attemptState struct {
	run, round, number uint64
	plan               string             // as Exchange.Planned names it: an SN may show another one under the same number
	stop               context.CancelFunc // nil when nothing runs
	leaves             []merge.Digest     // of what was merged
	done               *round.Done        // all that can be said
	short              *round.Done        // what is said as long as nobody asks
	job                Job                // that done is about
	asked, full        bool               // the leader asks for all; it can be said
	planned            *round.Plan
	failed             *round.Failed
}

func (a *attemptState) running() bool { return a.stop != nil }

// attemptOfLocked is the attempt of the plan before anything is done.
func (s *session) attemptOfLocked(p *round.Plan) attemptState {
	return attemptState{run: p.Run, round: p.Round, number: p.Attempt, plan: s.plannedLocked(p)}
}

// atLocked tells whether this node's newest attempt is that of the plan.
func (s *session) atLocked(p *round.Plan) bool {
	a := &s.attempt
	return a.run == p.Run && a.round == p.Round && a.number == p.Attempt && a.plan == s.plannedLocked(p)
}

// plannedLocked is what Exchange.Planned says of a plan. Each report asks for that of the view's.
func (s *session) plannedLocked(p *round.Plan) string {
	if s.named.plan != p {
		s.named.plan, s.named.as = p, s.engine.cfg.Exchange.Planned(Job{Contract: s.contract, Plan: p, Layout: s.form.Layout})
	}
	return s.named.as
}

// reconcileLocked does the next step towards what the contract says. It starts tasks and returns at once.
func (s *session) reconcileLocked() {
	if s.err != nil || s.view.Index == 0 {
		return
	}
	s.learnLocked() // once finished, of those who may come for the final model
	if s.finished {
		return
	}
	s.adoptLocked()
	if s.view.Over && s.held.Exists() {
		s.copies.keepLocked() // it may have been copied before it was known to be the final one
	}
	s.answerLocked()
	s.skipLocked()
	s.measureLocked()
	s.followPlanLocked()
}

// adoptLocked makes the committed model this node's own: by turning the slots when it was merged here, by fetching it
// otherwise. A node in the middle of its training does not fetch: the model may be outdated when it is needed.
func (s *session) adoptLocked() {
	want := s.view.Model()
	if want.Round == 0 && !s.held.Exists() && !s.base.Exists() {
		s.held, s.base = want, want // rounds without a model were another SN's word
	}
	if s.held == want || want.Round == 0 {
		return
	}
	c := s.view.Committed
	if d := s.attempt.done; d != nil && s.attempt.run == s.run && d.Round == want.Round && d.Attempt == c.Attempt && d.ModelDigest == want.Digest &&
		d.StateDigest == want.State {
		s.copies.signed.Add(s.attempt.planned, s.form.Layout.Digest().String(), d)
		s.holdLocked(want, s.attempt.leaves)
		return
	}
	if c.Attempt == 0 && s.goBackLocked(want) {
		return
	}
	if (s.offered == nil && !s.closing) || s.fetching {
		return
	}
	if s.attempt.running() {
		s.attempt.stop() // its task calls for the next reconciliation when it has ended
		return
	}
	s.fetching = true
	if s.attempt.failed == nil { // which is to be told
		s.attempt = attemptState{} // what an attempt left in the merging slot is overwritten
	}
	holders, unjudged := s.accepted(s.holdersLocked())
	e, ref := s.engine, round.Ref{Contract: s.contract, Run: s.run, Model: want}
	s.spawnLocked(func() {
		dst := s.slots.Merging() // it may have to be made, which takes as long as the system needs for so much memory
		leaves, err := s.own(dst, ref)
		if err != nil {
			leaves, err = s.fetch(s.ctx, holders, unjudged, ref, dst)
		}
		if err == nil {
			s.slots.Merged(models.Note(ref))
		}
		if err != nil && s.ctx.Err() == nil {
			e.mu.Lock()
			s.missLocked(want, err)
			e.mu.Unlock()
			pause(s.ctx, e.cfg.RetryFetch)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		s.fetching = false
		if err == nil && !s.ended() {
			s.holdLocked(want, leaves)
		}
		e.poke()
	})
}

// holdLocked turns the slots: the merging one holds the committed model m, with these digests of its leaves.
func (s *session) holdLocked(m round.Model, leaves []merge.Digest) {
	s.heldSlot, s.leaves, s.turn = s.slots.Commit(), leaves, s.turn+1
	s.held, s.missed, s.lostSince = m, nil, time.Time{}
	s.recordLocked()
	s.copies.keepLocked()
	s.notifyLocked()
	signal(s.engine.beat)
	signal(s.engine.wake)
}

// holdersLocked lists the nodes that may hold the committed model, best first.
func (s *session) holdersLocked() []*round.Session {
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

// fetch tries each holder once and checks what it got. Those that are not judged yet may have the model. It returns the digests
// of the model's leaves.
func (s *session) fetch(ctx context.Context, holders []*round.Session, unjudged []error, ref round.Ref, dst models.Slot) (leaves []merge.Digest, _ error) {
	var nowhere error
	if len(unjudged) == 0 {
		nowhere = fmt.Errorf("%w of round %d", errNowhere, ref.Round)
	}
	errs := slices.Clip(unjudged)
	for _, h := range holders {
		err := s.engine.cfg.Exchange.Fetch(ctx, h, ref, s.form.Bytes(), dst)
		if err == nil {
			leaves, err = s.form.Verify(dst, ref.Model)
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
func (s *session) answerLocked() {
	if s.held != s.view.Model() || !s.held.Exists() {
		return
	}
	c := s.view.Committed
	// The rounds of a run only go up; a base beyond what is held is of a model that was never committed, and so is one of the same round
	// that is another model: SNs that were restored from a backup knew nothing of it.
	if o := s.offered; o != nil && (s.held != s.base || s.view.Over) {
		s.last = s.resultLocked(o.seq)
		s.lastSeq, s.offered, s.base = o.seq, nil, s.held
		s.recordLocked()
		s.engine.cfg.Log.Info("model handed to the program", "contract", s.contract, "round", c.Round,
			"participants", len(c.Participants), "contributed", s.last.Contributed)
		s.notifyLocked()
		signal(s.engine.beat)
	}
	if s.closing && s.view.Over {
		s.notifyLocked()
	}
}

func (s *session) resultLocked(seq uint64) *Result {
	c := s.view.Committed
	r := &Result{
		Round: c.Round, Slot: s.heldSlot, Digest: c.Digest, Interval: max(c.NextInterval, 1),
		Participants: c.Participants, TrainingOver: s.view.Over,
	}
	if m := s.view.Session(s.id); m != nil {
		r.Contributed = m.LastRound == c.Round && m.LastSeq >= seq // what it left when it closed counts on, under later numbers
	}
	return r
}

// followPlanLocked starts this node's part of the current attempt and abandons an older one.
func (s *session) followPlanLocked() {
	p := s.view.Plan
	if s.attempt.running() && (p == nil || !s.atLocked(p)) {
		s.attempt.stop()
		return
	}
	if p == nil || s.atLocked(p) || s.fetching || s.held != s.view.Model() || p.Round != s.held.Round+1 {
		return
	}
	self := slices.IndexFunc(p.Participants, func(m *round.Participant) bool { return m.Session == s.id })
	if self < 0 {
		return
	}
	if !s.closed && (s.offered == nil || s.offered.seq != p.Participants[self].Seq) {
		return // planned on a report of an earlier life of this session
	}
	if !s.acceptsLocked(p, self) {
		return
	}
	job := Job{
		Contract: s.contract, Plan: p, Self: self, Layout: s.form.Layout, Source: s.sourceLocked(), Turn: s.turn,
		Spool: s.spool, Stash: s.stash,
	}
	if s.held.Exists() {
		job.Base = &models.Base{ReaderAt: s.slots.Committed(), Layout: s.form.Layout, Leaves: s.leaves}
	}
	if s.journalLocked(job) {
		s.mergeLocked(job)
	}
}

func (s *session) mergeLocked(job Job) {
	ctx, stop := context.WithCancel(s.ctx)
	p := job.Plan
	s.attempt = s.attemptOfLocked(p)
	s.attempt.stop, s.attempt.planned = stop, p
	signal(s.engine.beat)
	e, base := s.engine, s.held
	var leaves []merge.Digest
	job.Merged = func(of []merge.Digest) { leaves = of }
	s.spawnLocked(func() {
		defer stop()
		job.Merging = s.slots.Merging() // not within the lock, as above
		done, failed := e.cfg.Exchange.Merge(ctx, job)
		if done != nil { // not when it is committed: that is within the lock, and heartbeats wait for it
			s.slots.Merged(models.Note(round.Ref{Contract: s.contract, Run: p.Run, Model: round.Model{Round: p.Round, Digest: done.ModelDigest, State: done.StateDigest}}))
		}
		var own error
		if failed != nil && failed.Blamed == e.cfg.Peer {
			if own = checkOwn(job); own == nil && job.Base != nil {
				s.repair(base)
			}
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		s.attempt.stop = nil
		switch {
		case done != nil:
			s.attempt.doneWith(job, done, leaves)
		case failed != nil:
			s.attempt.failed = failed
			e.cfg.Log.Warn("attempt of a round failed", "contract", s.contract, "round", p.Round, "attempt", p.Attempt,
				"blamed", failed.Blamed, "reason", failed.Reason)
			if own != nil {
				s.giveUpLocked(own)
			}
		default:
			s.attempt = attemptState{} // superseded
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
