package session

import (
	"context"
	"reflect"
	"time"

	"github.com/swarmd/swarmd/internal/round"
)

// reporter reports what an engine's session has to say, and follows the answers.
type reporter struct {
	e *Engine

	// Engine.mu guards what follows.
	prove           bool          // the SN in use asks for proofs of what is held
	takesTrained    bool          // the SN that leads takes what programs have trained
	warningsSeen    string        // digest of the last warnings
	begun, answered uint64        // reports: how many, and the last one of them that an SN has answered
	hurried         bool          // the next one is due at once
	beat            chan struct{} // closed and replaced when one was answered
}

// reportDelay is how long what only people see may wait for a report that is due anyway.
const reportDelay = 100 * time.Millisecond

// heartbeats reports every interval, at once when there is news that the leader acts on, and soon after any other change. A
// round is so two reports of each node: that it is ready, and that it is done.
func (rp *reporter) heartbeats(ctx context.Context) {
	e := rp.e
	tick := time.NewTicker(e.cfg.Heartbeat)
	defer tick.Stop()
	leads, log := false, heartbeatLog{log: e.cfg.Log}
	for {
		told, number := rp.numberedReport(!leads)
		callCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
		a, err := e.cfg.Control.Report(callCtx, told)
		cancel()
		unsigned := leads
		if leads = err == nil && a.Leads; err == nil && unsigned && a.Sign && !leads {
			continue // another SN than before, or it does not lead any more: it has passed nothing on
		}
		rp.tookAnswer(number, a, err)
		rp.answerAsked(a.Asks)
		if ctx.Err() == nil {
			log.note(err)
		}
		if err != nil { // the leader may know nothing of what it said
			told = nil
		} else {
			rp.proveTo(a)
		}
		if !rp.awaitReport(ctx, tick.C, told) {
			return
		}
		if err != nil { // a fast failure must not become a busy loop
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// awaitReport blocks until the next report is due, when told is the last one that was taken; false when ctx ends.
func (rp *reporter) awaitReport(ctx context.Context, tick <-chan time.Time, told *round.Report) bool {
	e := rp.e
	var late <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case <-late:
			return true
		case <-e.toReport:
			if now, hurried := rp.report(); hurried || urgent(now, told) {
				return true
			}
			if late == nil {
				t := time.NewTimer(reportDelay)
				defer t.Stop()
				late = t.C
			}
		}
	}
}

// urgent reports whether a report has something to act on that told, the last one, had not; nil: nothing is known of that.
func urgent(now, told *round.Report) bool {
	switch {
	case told == nil:
		return true
	case now.Ready == nil && now.Done == nil && now.Failed == nil:
		return false
	}
	return told.Session != now.Session || told.Run != now.Run || now.Ready != nil && !reflect.DeepEqual(now.Ready, told.Ready) ||
		now.Done != nil && !reflect.DeepEqual(now.Done, told.Done) || now.Failed != nil && !reflect.DeepEqual(now.Failed, told.Failed)
}

// report is what the leader should know now, and whether it is to be sent at once. It is not signed: most of it is compared with what
// was told and never sent.
func (rp *reporter) report() (r *round.Report, hurried bool) {
	e := rp.e
	e.mu.Lock()
	defer e.mu.Unlock()
	return rp.reportLocked(), rp.hurried
}

func (rp *reporter) reportLocked() *round.Report {
	e := rp.e
	if s := e.current; s != nil && s.err == nil { // a finished one still holds models
		return s.reports.reportLocked()
	}
	return &round.Report{}
}

// numberedReport is a report that can be sent: signed, unless it goes to the SN that leads. What that one is told by this node itself needs
// no signature, as the connection and the node's token prove who speaks; nor does it gain anything by saying so if it is not true, since
// the SN that leads takes nothing unsigned from another SN.
func (rp *reporter) numberedReport(passedOn bool) (r *round.Report, number uint64) {
	e := rp.e
	e.mu.Lock()
	defer e.mu.Unlock()
	rp.begun, rp.hurried = rp.begun+1, false
	r = rp.reportLocked()
	r.WarningsSeen = rp.warningsSeen
	if r.Session != "" {
		e.current.reports.numberLocked(r, passedOn)
	}
	return r, rp.begun
}

// tookAnswer notes that an SN has answered a report, or that none has.
func (rp *reporter) tookAnswer(number uint64, a round.Answer, err error) {
	e := rp.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		rp.takesTrained = false // it may be one that does not know the field, and can't verify a signature over it
		return
	}
	rp.warnedLocked(a)
	rp.answered = number
	close(rp.beat)
	rp.beat = make(chan struct{})
}

// lastWord bounds how long a program waits for its final model because no SN takes a report.
const lastWord = time.Second

// exchangeLocked has all be reported that is known now, and blocks until an SN has answered that, so that the leader knows of the program's
// training, and the program of what the leader found. It returns after lastWord in any case. Called with Engine.mu held, which it releases
// while it waits.
func (rp *reporter) exchangeLocked(ctx context.Context) {
	e := rp.e
	ctx, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	for due := rp.begun + 1; rp.answered < due; {
		rp.hurried = true
		beat := rp.beat
		signal(e.toReport)
		e.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-beat:
		}
		e.mu.Lock()
		if ctx.Err() != nil {
			return
		}
	}
}

// answerAsked takes the questions in the answer to a report. Each stands in every answer until the attempt is decided, also in those of
// another leader, so one that is lost costs a heartbeat.
func (rp *reporter) answerAsked(asks []round.Asked) {
	e := rp.e
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ask := range asks {
		if s := e.current; s != nil && s.id == ask.Session && s.err == nil {
			s.attempts.askedLocked(ask)
		}
	}
}
