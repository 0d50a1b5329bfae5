package session

import (
	"context"
	"reflect"
	"time"

	"github.com/swarmd/swarmd/internal/round"
)

// heart reports what an engine's session has to say, and follows the answers.
type heart struct {
	e     *Engine
	prove bool // the SN in use asks for proofs of what is held; Engine.mu guards it
}

// courtesy is how long what only people see may wait for a report that is due anyway.
const courtesy = 100 * time.Millisecond

// heartbeats reports every interval, at once when there is news that the leader acts on, and soon after any other change. A
// round is so two reports of each node: that it is ready, and that it is done.
func (hb *heart) heartbeats(ctx context.Context) {
	e := hb.e
	tick := time.NewTicker(e.cfg.Heartbeat)
	defer tick.Stop()
	leads, log := false, beats{log: e.cfg.Log}
	for {
		told := hb.numberedReport(!leads)
		callCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
		a, err := e.cfg.Control.Report(callCtx, told)
		cancel()
		unsigned := leads
		if leads = err == nil && a.Leads; err == nil && unsigned && a.Sign && !leads {
			continue // another SN than before, or it does not lead any more: it has passed nothing on
		}
		hb.answerAsked(a.Asks)
		if ctx.Err() == nil {
			log.note(err)
		}
		if err != nil { // the leader may know nothing of what it said
			told = nil
		} else {
			hb.proveTo(a)
		}
		if !hb.awaitBeat(ctx, tick.C, told) {
			return
		}
		if err != nil { // a fast failure must not become a busy loop
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// awaitBeat blocks until the next report is due, when told is the last one that was taken; false when ctx ends.
func (hb *heart) awaitBeat(ctx context.Context, tick <-chan time.Time, told *round.Report) bool {
	e := hb.e
	var late <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case <-late:
			return true
		case <-e.beat:
			if pressing(hb.report(), told) {
				return true
			}
			if late == nil {
				t := time.NewTimer(courtesy)
				defer t.Stop()
				late = t.C
			}
		}
	}
}

// pressing reports whether a report has something to act on that told, the last one, had not; nil: nothing is known of that.
func pressing(now, told *round.Report) bool {
	switch {
	case told == nil:
		return true
	case now.Ready == nil && now.Done == nil && now.Failed == nil:
		return false
	}
	return told.Session != now.Session || told.Run != now.Run || now.Ready != nil && !reflect.DeepEqual(now.Ready, told.Ready) ||
		now.Done != nil && !reflect.DeepEqual(now.Done, told.Done) || now.Failed != nil && !reflect.DeepEqual(now.Failed, told.Failed)
}

// report is what the leader should know now. It is not signed: most of it is compared with what was told and never sent.
func (hb *heart) report() *round.Report {
	e := hb.e
	e.mu.Lock()
	defer e.mu.Unlock()
	return hb.reportLocked()
}

func (hb *heart) reportLocked() *round.Report {
	e := hb.e
	if s := e.current; s != nil && s.err == nil { // a finished one still holds models
		return s.reports.reportLocked()
	}
	return &round.Report{}
}

// numberedReport is a report that can be sent: signed, unless it goes to the SN that leads. What that one is told by this node itself needs
// no signature, as the connection and the node's token prove who speaks; nor does it gain anything by saying so if it is not true, since
// the SN that leads takes nothing unsigned from another SN.
func (hb *heart) numberedReport(passedOn bool) *round.Report {
	e := hb.e
	e.mu.Lock()
	defer e.mu.Unlock()
	r := hb.reportLocked()
	if r.Session != "" {
		e.current.reports.numberLocked(r, passedOn)
	}
	return r
}

// answerAsked takes the questions in the answer to a report. Each stands in every answer until the attempt is decided, also in those of
// another leader, so one that is lost costs a heartbeat.
func (hb *heart) answerAsked(asks []round.Asked) {
	e := hb.e
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ask := range asks {
		if s := e.current; s != nil && s.id == ask.Session && s.err == nil {
			s.attempts.askedLocked(ask)
		}
	}
}
