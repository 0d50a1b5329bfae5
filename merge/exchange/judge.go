package exchange

import (
	"errors"
	"sync"
	"time"

	"github.com/swarmd/swarmd/merge/exchange/dialing"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// errNoBase ends an attempt at a node that has no committed model while others do.
var errNoBase = errors.New("no committed model is held here")

// errPeerFailed ends a stream whose attempt failed.
var errPeerFailed = errors.New("the attempt failed")

// judge decides what this node believes of what participants say of one another, and which of them have fallen silent.
type judge struct {
	plan      *assignment
	lifecycle *lifecycle
	sealing   *sealing
	clock     *dialing.Clock // of the streams that are not open yet
	cfg       *Config
	began     time.Time
	hasBase   bool             // whether a model is committed here
	shorten   bool             // whether leaves travel as differences from it
	unopened  func(i int) bool // whether participant i is to open a stream to this node, and has not

	mu     sync.Mutex // guards what is below
	untrue []error    // by participant: what this node has seen it say that can't be true
}

// convict fails the attempt for what participant i tells everybody and can't be true, after a while in which the others can see
// it too: who is only told counts for nothing when it is judged who is left out.
func (j *judge) convict(i int, why error) {
	j.mu.Lock()
	j.untrue[i] = why
	j.mu.Unlock()
	t := time.NewTimer(j.cfg.Grace / 4)
	defer t.Stop()
	select {
	case <-j.lifecycle.ctx.Done():
	case <-t.C:
		j.lifecycle.fail(i, why.Error(), why)
	}
}

// seen returns what this node has seen participant i say that can't be true; nil: nothing.
func (j *judge) seen(i int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.untrue[i]
}

// failed passes on what a Fail frame from participant i says.
func (j *judge) failed(i int, c *wire.Conn, h wire.Header) {
	b, err := c.Payload(h, 1+wire.MaxReason)
	if err != nil {
		j.lifecycle.fail(i, "broke off: "+wire.Brief(err), err)
		return
	}
	f, err := wire.DecodeFail(h.Arg, b, len(j.plan.Participants))
	if err != nil {
		j.lifecycle.fail(i, wire.Brief(err), err)
		return
	}
	j.weigh(i, f)
}

// weigh ends the attempt for what participant i says, or for what this node has seen itself of whom i blames.
func (j *judge) weigh(i int, f wire.Fail) {
	says := " (says " + j.plan.node(i) + ")"
	switch {
	case f.Code == wire.CodeDenied:
		j.lifecycle.fail(i, "refused the stream: "+f.Reason, nil)
	case f.Code == wire.CodeContents && f.Blamed >= 0:
		j.lifecycle.endedBy(i, f.Blamed, f.Reason+says)
	case f.Code == wire.CodeFailed && f.Blamed == j.plan.Self:
		// We know that we live: from here it is the link to the teller that does not carry.
		j.lifecycle.fail(i, "lays the failure to us: "+f.Reason, nil)
	case f.Blamed >= 0 && j.seen(f.Blamed) != nil:
		why := j.seen(f.Blamed)
		j.lifecycle.fail(f.Blamed, why.Error(), why)
	case f.Code == wire.CodeFailed && f.Blamed >= 0 && j.silent(f.Blamed):
		j.lifecycle.fail(f.Blamed, f.Reason+" (says "+j.plan.node(i)+", and nothing comes here either)", nil)
	case f.Code == wire.CodeFailed && f.Blamed >= 0:
		j.lifecycle.endedBy(i, f.Blamed, f.Reason+says)
	case f.Code == wire.CodeHeard && f.Blamed >= 0:
		j.lifecycle.endedBy(i, f.Blamed, f.Reason)
	default:
		j.lifecycle.endedBy(i, -1, j.plan.node(i)+" left the attempt: "+f.Reason)
	}
}

// unexpected fails the attempt when participant i's frame shows that it and this node do not both count from a committed model,
// and returns the error for a frame that must not stand here. In the first round nobody has such a model, whatever one says.
func (j *judge) unexpected(i int, h wire.Header) error {
	switch {
	case h.Kind == wire.KindDiff && !j.hasBase && j.plan.method.Wire() != 0 && j.plan.Round > 1:
		// Only an indirect report: where nobody has a model, as after training began anew, one frame would else make this node accuse itself.
		j.lifecycle.endedBy(i, j.plan.Self, "holds no committed model, from which "+j.plan.node(i)+" counts what it sends")
	case h.Kind == wire.KindLeaf && j.shorten:
		j.lifecycle.fail(i, "sends weights as they are: it holds no committed model from which to count", errNoBase)
	}
	return wire.Unexpected(h)
}

// due returns when the stream of participant i is too late. Who has given all that it owes has nothing more to say on the one to it.
func (j *judge) due(i int) time.Time {
	heard := time.Now()
	if !j.sealing.has(i) {
		heard = j.lifecycle.lastSeen(i)
	}
	return j.clock.Due(j.began, heard)
}

// silent reports whether participant i owes this node bytes and has sent none for half of the stall time: then this node has
// seen for itself what it is told of i, and has only been told first.
func (j *judge) silent(i int) bool {
	half := j.cfg.StallTimeout / 2
	return j.unopened(i) && time.Until(j.due(i)) <= half || j.lifecycle.owesSince(i, time.Now().Add(-half))
}

// awaitStream waits until participant i has opened its stream, and blames it if that is too late.
func (j *judge) awaitStream(i int, opened <-chan struct{}) {
	t := time.NewTimer(j.cfg.StallTimeout)
	defer t.Stop()
	for {
		select {
		case <-opened:
			return
		case <-j.lifecycle.ctx.Done():
			return
		case <-t.C:
		}
		left := time.Until(j.due(i))
		if left <= 0 {
			// Also one that contributes nothing: without a blame the same set would be tried for ever.
			j.lifecycle.fail(i, j.plan.node(i)+" opened no stream in time", nil)
			return
		}
		t.Reset(left)
	}
}
