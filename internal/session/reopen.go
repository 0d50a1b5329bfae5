package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/internal/round"
)

const (
	// reopenAfter is how long an SN may show a contract without this session before it is opened anew: one that lags shows it soon.
	reopenAfter = 2 * time.Second
	// reopenLimit bounds the call that opens it.
	reopenLimit = 30 * time.Second
	// A session that waits and gets no model compares its SN with others, first after compareAfter, then after twice as long and
	// so on to compareMost.
	compareAfter = 10 * time.Second
	compareMost  = 5 * time.Minute

	// codeContractUnknown is the reason of the API.
	codeContractUnknown = "CONTRACT_UNKNOWN"
)

// membership is whether the swarm knows a session, as far as one SN's word goes.
type membership struct {
	s           *session
	resumed     bool // from an earlier run of the daemon
	before      before
	shown       bool // the newest view shows this session
	laterRun    int  // how many heartbeats in a row the SNs have known only an earlier run
	reopening   bool // it is being opened anew
	closesAgain bool // it tells the contract once more that it has closed, or finished
	moved       bool // it went to another run, as an SN had told a wrong one
	doubted     bool // an SN has told what does not hold, or what others do not, and they have not agreed since
}

// shows reports whether a view shows a session.
func shows(v *round.View, id string) bool { return v.Session(id) != nil }

// freshLocked reports whether this session has nothing yet that belongs to a run: then it may be of another run than the SN said at
// which it was opened.
func (mb *membership) freshLocked() bool {
	return !mb.s.model.held.Exists() && mb.s.attempts.begun == nil
}

// goLocked has this session be of the run that a view says: what was said of a model, and of rounds without one, was not of this run.
func (mb *membership) goLocked(v *round.View) {
	s := mb.s
	mb.moved = mb.moved || v.Run != s.run
	s.run, s.model.held, s.model.base = v.Run, round.Model{}, round.Model{}
	if !s.attempts.newest.running() {
		s.attempts.newest = attemptState{}
	}
}

// missingLocked has a session opened anew that a view does not show: the SN that said it was opened may have lied, or the swarm has
// lost it.
func (mb *membership) missingLocked() {
	s := mb.s
	if mb.reopening {
		return
	}
	mb.reopening = true
	s.lifecycle.spawnLocked(func() {
		pause(s.lifecycle.ctx, reopenAfter)
		s.membership.reopen()
	})
}

// reopen opens a session once more, at the SN that is in use now, unless that has shown it meanwhile. To do so is no harm if it is
// open. It blocks.
func (mb *membership) reopen() {
	s, e := mb.s, mb.s.engine
	e.mu.Lock()
	over := s.ended() || s.lifecycle.ctx.Err() != nil || mb.shown
	mb.reopening = !over
	open := *s.open // the program's next Sync may change it
	e.mu.Unlock()
	if over {
		return
	}
	ctx, cancel := context.WithTimeout(s.lifecycle.ctx, reopenLimit)
	defer cancel()
	view, err := e.cfg.Control.Open(ctx, &open)
	e.mu.Lock()
	defer e.mu.Unlock()
	mb.reopening = false
	switch {
	case ctx.Err() != nil && err != nil: // the next view without it calls for another try
	case err != nil:
		e.cfg.Log.Warn("the swarm does not know this session, and takes it no more", "contract", s.contract, "session", s.id, "err", err)
		s.terminateLocked(reasoned(err, "OPEN_REFUSED"))
	case shows(view, s.id):
		mb.reopenedLocked(view)
	}
	s.lifecycle.notifyLocked()
	e.poke()
}

// reopenedLocked goes on with a session that was opened anew.
func (mb *membership) reopenedLocked(v *round.View) {
	s := mb.s
	e := s.engine
	if m, err := methodOf(s.open, v); err == nil && m.String() != s.model.form.Method.String() {
		err := fmt.Errorf("it was opened with method %s, and the contract has %s", s.model.form.Method, m)
		s.terminateLocked(&Error{"TERMS_MISMATCH", err.Error(), "start the program again"})
		return
	}
	e.cfg.Log.Warn("the swarm did not know this session; it was opened anew", "contract", s.contract, "session", s.id, "run", v.Run)
	if mb.placeLocked().mayGo(v.Run) {
		mb.goLocked(v)
	}
	if !s.attempts.newest.running() {
		s.attempts.newest = attemptState{}
	}
	s.model.fetchErr, s.model.fetchLog, s.program.closed = nil, fetchLog{}, false
	s.view = &round.View{} // its order is another SN's
	s.viewLocked(v)
	s.recordLocked()
	if s.program.closing && !s.program.closed && !s.ended() {
		s.lifecycle.spawnLocked(func() { s.membership.closeAnew() })
	}
}

// unknownLocked has a session opened anew whose contract an SN does not know, if there is reason to doubt the SN that knew it. It is
// false if the session is to end: the contract was deleted.
func (mb *membership) unknownLocked(err error) bool {
	s := mb.s
	var r interface{ Reason() string }
	if s.ended() || !mb.doubted || !mb.freshLocked() || !errors.As(err, &r) || r.Reason() != codeContractUnknown {
		return false
	}
	mb.shown = false
	return true
}

// closeAnew tells the contract once more that the session's training has ended.
func (mb *membership) closeAnew() {
	s, e := mb.s, mb.s.engine
	e.mu.Lock()
	req := s.closeRequestLocked()
	e.mu.Unlock()
	view, err := e.cfg.Control.Close(s.lifecycle.ctx, req)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case s.lifecycle.ctx.Err() != nil:
	case err != nil:
		s.terminateLocked(reasoned(err, "CLOSE_REFUSED"))
	default:
		s.program.closed, mb.closesAgain = true, false
		s.answeredLocked(view)
	}
	e.poke()
}

// standing is what a view says that a waiting session goes by.
type standing struct {
	state   string // of the session; empty: it is not shown
	live    bool
	run     uint64
	round   uint64
	digest  string
	attempt uint64 // that runs with the session; 0: none
}

func standingIn(v *round.View, id string) standing {
	st := standing{run: v.Run, round: v.Committed.Round, digest: v.Committed.Digest}
	if m := v.Session(id); m != nil {
		st.state, st.live = m.State, m.Live
	}
	if v.Plan != nil && slices.ContainsFunc(v.Plan.Participants, func(p *round.Participant) bool { return p.Session == id }) {
		st.attempt = v.Plan.Attempt
	}
	return st
}

// compare has the SN in use compared with others while the session waits in vain: one that withholds rounds, or that has never
// opened the session, tells nothing by which it could be found out. It blocks until the session ends.
func (mb *membership) compare() {
	s, e := mb.s, mb.s.engine
	if e.cfg.Compare == nil {
		return
	}
	after := compareAfter
	had, waited := round.Model{}, false
	for !pausedOut(s.lifecycle.ctx, after) {
		e.mu.Lock()
		waits := !s.ended() && (s.program.offered != nil || s.program.closing)
		vain := waits && waited && s.model.held == had
		had, waited = s.model.held, waits
		fresh := mb.freshLocked()
		e.mu.Unlock()
		if !vain {
			after = compareAfter
			continue
		}
		after = min(2*after, compareMost)
		var c comparison
		same := func(v *round.View) bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			equal := s.view.Index == 0 || standingIn(v, s.id) == standingIn(s.view, s.id)
			c.add(equal, time.Now())
			mb.doubted = mb.doubted || c.lasts
			return equal
		}
		sn := e.cfg.Compare(s.lifecycle.ctx, s.contract, same, fresh)
		if sn != "" {
			e.cfg.Log.Warn("an SN shows another contract than others do; left it", "contract", s.contract, "sn", sn)
			after = compareAfter
		}
		e.mu.Lock()
		mb.doubted = mb.doubted && !c.agree()
		e.mu.Unlock()
	}
}

// lagging is how long an SN may show what others do not and be believed: it may lag.
const lagging = 2 * time.Second

// comparison is what became of comparing other SNs' views with that of the SN in use, which is done once more when there is a difference.
type comparison struct {
	asked bool
	since time.Time // of the first difference; zero: there was none
	lasts bool      // an SN differs after lagging too
	last  bool      // the last one was the same
}

// add counts the answer of one SN.
func (c *comparison) add(equal bool, now time.Time) {
	c.asked, c.last = true, equal
	if !equal && c.since.IsZero() {
		c.since = now
	}
	c.lasts = c.lasts || !equal && now.Sub(c.since) >= lagging
}

// agree reports whether all SNs that gave an answer show the same.
func (c *comparison) agree() bool { return c.asked && c.last && !c.lasts }

// pausedOut waits, and reports whether ctx has ended.
func pausedOut(ctx context.Context, d time.Duration) bool {
	pause(ctx, d)
	return ctx.Err() != nil
}
