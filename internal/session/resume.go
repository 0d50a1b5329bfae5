package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

// codeSlotsLost is the reason of a session whose weight files did not outlive the daemon.
const codeSlotsLost = "SLOTS_LOST"

// Resume adopts the session that a previous run of this node recorded and whose program lives on. It looks at the weight
// files: a committed model that is not what the record says is fetched again; without the files the session fails, and its
// program learns that from its next call. Call it before Run, which goes on with the session.
func (e *Engine) Resume(r *Saved) {
	s := sessionOf(context.Background(), func() {}, e, &r.Open, models.Form{Layout: r.layout, Method: r.method})
	s.run, s.membership.before, s.membership.resumed = r.Run, before{r.Index, r.Swarm, true}, true
	s.model.base, s.attempts.sent, s.attempts.begun = r.Base, r.Sent, r.Begun
	p := &s.program
	p.localName, p.progress, p.lastSeq, p.last = r.Local, r.Progress, r.LastSeq, r.Last
	p.closing, p.finished, p.final = r.Closing, r.Finished, r.Final
	if r.Trained != nil {
		s.program.training.told = *r.Trained
	}
	if s.attempts.begun != nil && s.attempts.begun.Run == 0 {
		s.attempts.begun.Run = r.Run
	}
	s.reports.last.number = r.Spoken + numberGap
	if r.Offered != nil {
		s.program.offered = &offer{seq: r.Offered.Seq, weight: r.Offered.Weight}
	}
	if r.Error != nil && !r.Finished {
		s.err = r.Error
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current, e.seen = s, true
	if s.err == nil {
		s.model.takeSlotsLocked(r)
	}
}

// takeSlotsLocked opens the weight files of the session's previous run.
func (inv *inventory) takeSlotsLocked(r *Saved) {
	s := inv.s
	log := s.engine.cfg.Log
	slots, err := s.engine.cfg.OpenSlots(inv.form.Layout.Bytes(), r.Local, r.HeldSlot)
	switch {
	case err == nil:
		inv.slots = slots
	case s.program.finished: // the final model lies on disk too
		inv.held, inv.heldSlot = r.Held, r.HeldSlot // the next run reads the record too
		return
	default:
		log.Error("the session can't be adopted without its weight files", "contract", s.contract, "session", s.id, "err", err)
		s.err = &Error{codeSlotsLost, "the weight files of this session were lost while the daemon was away: " + err.Error(), "start the training again"}
		return
	}
	if !inv.takeStateLocked(r) {
		s.program.unheldLocked()
		return
	}
	if held := r.Held; held.Exists() {
		if inv.leaves, err = inv.form.Verify(inv.slots.Committed(), held); err != nil {
			log.Warn("the committed model in the weight file was changed; fetching it again", "contract", s.contract, "round", r.Held.Round, "err", err)
			s.program.unheldLocked()
			return
		}
	}
	inv.held, inv.heldSlot = r.Held, r.HeldSlot
}

// takeStateLocked opens the optimiser's state of the session's previous run. It is false if that is gone: then there are new
// files, and what belongs into them must be fetched.
func (inv *inventory) takeStateLocked(r *Saved) bool {
	s := inv.s
	bytes := inv.form.Method.StateBytes(inv.form.Layout)
	if bytes == 0 {
		return true
	}
	sc := s.engine.scratch()
	st, err := sc.OpenStateful(inv.slots, s.id, inv.form.Layout.Bytes(), bytes, r.StateTurn)
	if err == nil {
		inv.slots = st
		return true
	}
	log := s.engine.cfg.Log
	log.Warn("the optimiser's state of this session's previous run can't be used", "contract", s.contract, "err", err)
	if st, err = sc.NewStateful(inv.slots, s.id, inv.form.Layout.Bytes(), bytes); err != nil {
		s.err = noRoom(err, inv.form.Method, fmt.Sprintf("two files of %s for its optimiser's state", inBytes(bytes)))
		return false
	}
	inv.slots = st
	return r.Held.Round == 0
}

// unheldLocked makes the session ask for its last model once more.
func (pr *program) unheldLocked() {
	s := pr.s
	if pr.last == nil || pr.offered != nil || pr.closing {
		return
	}
	pr.offered = &offer{seq: pr.lastSeq, weight: s.open.Weight}
	pr.lastSeq, pr.last, s.model.base = pr.lastSeq-1, nil, round.Model{}
}

// goOnLocked sets a resumed session going as a part of Run.
func (s *session) goOnLocked(parent context.Context) {
	s.lifecycle.beginLocked(parent)
	e := s.engine
	if s.err != nil {
		if own, ok := errors.AsType[*Error](s.err); ok && own.Code == codeSlotsLost { // nobody knows yet
			s.tellFailureLocked(s.err)
		}
		return
	}
	s.recordLocked() // the next run must number its reports on from this one's
	e.cfg.Log.Info("session of this node's previous run is adopted", "contract", s.contract, "session", s.id, "phase", s.program.phaseLocked(),
		"round", s.model.held.Round)
	s.lifecycle.spawnLocked(func() { s.membership.watch() })
	s.lifecycle.spawnLocked(func() { s.membership.watchMinPeers() })
	s.lifecycle.spawnLocked(func() { s.membership.compare() })
	if s.program.finished {
		s.tellFinishedLocked()
	}
	e.poke()
}

// recognisedLocked reports whether a view may be taken for the newest. A session that was adopted must stand in the first view that
// is not older than the last one of before. Its index is what an SN said once: a view that shows the session counts whatever
// its index is, and from then on the session is as any other.
func (mb *membership) recognisedLocked(v *round.View) bool {
	s := mb.s
	if shows(v, s.id) {
		mb.before = before{}
		return true
	}
	if v.Index < mb.before.index {
		return false
	}
	if mb.before.bound && v.Run == s.run && !s.program.finished {
		s.terminateLocked(&Error{"SESSION_ENDED", fmt.Sprintf("contract %s does not know this session any more", s.contract), "start the training again"})
	}
	return true
}

// before is what a session that was adopted knows of its views in the previous run, until one of this run shows it: so long it is not
// opened anew. The zero value is any other session's.
type before struct {
	index uint64 // of the newest view
	swarm string // whose index that is, as Config.Swarm says; empty: not known
	bound bool
}

// refounded forgets that if the SNs were recovered meanwhile: what they know may be older, so neither the index nor that the session
// is missing says anything.
func (b *before) refounded(swarm func() string) {
	if b.bound && b.swarm != "" && b.swarm != b.named(swarm) {
		*b = before{}
	}
}

// named names the swarm and the epoch of now.
func (b *before) named(swarm func() string) string {
	if swarm == nil {
		return b.swarm
	}
	return swarm()
}

// findLocal looks whether this node has the committed model already: in the merging slot of a session that was adopted, whose
// daemon may have died between its merge and the swarm's commit, or on disk, from an earlier session. Then no other node
// needs to hold it. It returns the digests of the model's leaves.
func (inv *inventory) findLocal(dst models.Slot, ref round.Ref) ([]merge.Digest, error) {
	s := inv.s
	if s.membership.resumed {
		if leaves, err := inv.form.Verify(dst, ref.Model); err == nil {
			return leaves, nil
		}
	}
	f, err := s.engine.store().Open(ref, inv.form.Bytes())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := copyInto(dst, f); err != nil {
		return nil, err
	}
	return inv.form.Verify(dst, ref.Model)
}

// copyInto writes a whole file into a slot.
func copyInto(dst models.Slot, src io.Reader) error {
	_, err := io.CopyBuffer(io.NewOffsetWriter(dst, 0), struct{ io.Reader }{src}, make([]byte, 1<<20))
	return err
}
