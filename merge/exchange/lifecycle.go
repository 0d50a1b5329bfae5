package exchange

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// lifecycle is how long an attempt lasts at this node: until it is complete, or for what reason it failed first. It has the open streams,
// which it ends with the attempt.
type lifecycle struct {
	plan  *assignment
	grace time.Duration // how long streams have to tell why
	count wire.Counters // of all streams

	ctx    context.Context //nolint:containedctx // It lives exactly as long as Run.
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when Run returns, under the hub's mutex

	mu      sync.Mutex         // guards all below
	conns   map[*wire.Conn]int // to these participants
	failure *Failure
	ended   bool // no stream may join any more
	aborted bool
}

// newLifecycle returns that of an attempt that ends with the context at the latest.
func newLifecycle(ctx context.Context, plan *assignment, grace time.Duration) *lifecycle {
	l := &lifecycle{plan: plan, grace: grace, done: make(chan struct{}), conns: make(map[*wire.Conn]int)}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	return l
}

// over reports whether Run has returned.
func (l *lifecycle) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *lifecycle) failed() *Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// close lets no stream join any more, and returns why the attempt failed; nil: it has not.
func (l *lifecycle) close() *Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return l.failure
}

// fail ends the attempt for what this node has seen.
func (l *lifecycle) fail(blamed int, reason string, cause error) {
	l.end(&Failure{Blamed: blamed, HeardFrom: -1, Reason: reason, cause: cause})
}

// failFor ends the attempt for an error met where participant i is to blame, unless the error itself is this node's or nobody's.
func (l *lifecycle) failFor(i int, reason string, err error) {
	fault := (*leafio.Fault)(nil)
	switch {
	case !errors.As(err, &fault):
		l.fail(i, reason, err)
	case fault.Nobody:
		l.fail(-1, fault.Error(), fault.Cause)
	default:
		l.fail(l.plan.Self, fault.Error(), fault.Cause)
	}
}

// endedBy ends the attempt because participant i has ended it, for what i says. That it did is all that this node knows.
func (l *lifecycle) endedBy(i, blamed int, reason string) {
	l.end(&Failure{Blamed: blamed, HeardFrom: i, Reason: reason})
}

// end ends the attempt unless it is over or another reason came first. All
// streams get the grace time to tell the peers.
func (l *lifecycle) end(f *Failure) {
	if f.Blamed >= 0 {
		f.Node = l.plan.node(f.Blamed)
	}
	l.mu.Lock()
	if l.failure != nil || l.ended || l.ctx.Err() != nil {
		l.mu.Unlock()
		return
	}
	l.failure = f
	conns := l.connsLocked()
	l.mu.Unlock()
	l.cancel(f)
	for _, c := range conns {
		c.EndWithin(l.grace)
	}
}

// abort drops all streams: the caller wants to be gone.
func (l *lifecycle) abort() {
	l.mu.Lock()
	l.aborted = true
	conns := l.connsLocked()
	l.mu.Unlock()
	for _, c := range conns {
		c.EndWithin(0)
		c.Reset()
	}
}

func (l *lifecycle) connsLocked() []*wire.Conn {
	conns := make([]*wire.Conn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	return conns
}

// attach lets the attempt end the stream to participant i; false when it has ended itself.
func (l *lifecycle) attach(i int, c *wire.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.aborted || l.failure != nil {
		return false
	}
	l.conns[c] = i
	c.CountIn(&l.count)
	return true
}

func (l *lifecycle) detach(c *wire.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// sendFailure says on a stream of an attempt that failed why; the writer calls it.
func (l *lifecycle) sendFailure(c *wire.Conn) {
	l.mu.Lock()
	f, aborted := l.failure, l.aborted
	l.mu.Unlock()
	if f == nil || aborted {
		return
	}
	c.EndWithin(l.grace)
	c.CloseWith(f.frame())
}

// suspect fails the attempt after a write error to participant i, but only when the reading side
// of the same stream had time to learn a better reason. Who owes nothing is not blamed.
func (l *lifecycle) suspect(i int, owes bool, reason string, err error) {
	t := time.NewTimer(l.grace / 2)
	defer t.Stop()
	select {
	case <-l.ctx.Done():
	case <-t.C:
		if owes {
			l.fail(i, reason+": "+wire.Brief(err), err)
		} else {
			l.endedBy(i, -1, reason+": "+wire.Brief(err))
		}
	}
}

// lastSeen returns when participant i last showed life on a stream of this attempt, the zero time if it did not.
func (l *lifecycle) lastSeen(i int) (at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, to := range l.conns {
		if to != i {
			continue
		}
		since := c.OwedSince()
		if since.IsZero() {
			return time.Now() // Its bytes are being worked on.
		}
		if since.After(at) {
			at = since
		}
	}
	return at
}

// owesSince reports whether participant i owes bytes on a stream since then or before.
func (l *lifecycle) owesSince(i int, then time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, to := range l.conns {
		if since := c.OwedSince(); to == i && !since.IsZero() && !since.After(then) {
			return true
		}
	}
	return false
}

// frame is how a failure is told.
func (f *Failure) frame() wire.Fail {
	if f.HeardFrom >= 0 {
		return wire.Fail{Blamed: f.Blamed, Code: wire.CodeHeard, Reason: f.Reason}
	}
	return wire.Fail{Blamed: f.Blamed, Code: f.code(), Reason: f.Reason}
}

// code is how a failure is told: whoever is blamed for a stream knows better, for its weights it does not.
func (f *Failure) code() wire.Code {
	var nonFinite *merge.NonFinite
	if errors.As(f.cause, &nonFinite) || errors.Is(f.cause, errNoBase) {
		return wire.CodeContents
	}
	return wire.CodeFailed
}
