package exchange

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/dialing"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/schedule"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// run is one attempt in progress at this node.
type run struct {
	Attempt
	hub   *Hub
	slots Slots
	dial  Dial
	plan  merge.Digest

	method *merge.Method
	codec  *merge.Codec   // how leaves travel; nil: as they are
	owned  []leafset.Runs // by participant
	duties
	who     []int    // contributors by plan index: participants of weight above 0
	weights []uint32 // theirs
	steps   sync.Pool
	// sumsFrame is the frame with the own share of the distances, once that is known.
	sumsFrame func() []byte
	seal      func() (wire.Seal, error) // of the own shard, once that is merged

	ctx    context.Context //nolint:containedctx // It lives exactly as long as Run.
	cancel context.CancelCauseFunc
	began  time.Time
	late   *dialing.Clock // of the streams that are not open yet
	count  wire.Counters
	done   chan struct{} // closed when Run returns, under the hub's mutex

	progress *progress
	given    leafset.Bitmap      // leaves of the task merged before this attempt: no contribution is needed
	inbound  []*inbound          // by participant; nil for self and when nothing is owned
	recent   recent              // what was merged last
	turns    *schedule.Scheduler // of the streams that share a link
	merging  chore               // of the goroutine that merges the own shard
	wg       sync.WaitGroup

	mu      sync.Mutex         // guards all below
	conns   map[*wire.Conn]int // to these participants
	failure *Failure
	ended   bool // no stream may join any more
	aborted bool
	seals   [][]byte // by participant; nil: it owns nothing, or has not said its own yet
	untrue  []error  // by participant: what this node has seen it say that can't be true
}

// newRun checks the attempt and works out what its method asks.
func newRun(h *Hub, a Attempt, slots Slots, dial Dial) (*run, error) {
	method, err := a.check()
	if err != nil {
		return nil, err
	}
	r := &run{
		hub: h, Attempt: a, slots: slots, dial: dial, plan: a.planDigest(), done: make(chan struct{}), method: method,
		turns: schedule.New(h.cfg.StallTimeout),
	}
	for i, p := range a.Participants {
		r.owned = append(r.owned, p.runs())
		if p.Weight > 0 {
			r.who = append(r.who, i)
			r.weights = append(r.weights, p.Weight)
		}
	}
	r.duties = a.duties(r.owned)
	r.codec, r.recent.most = r.newCodec(), 2*perBundle(a.Layout)
	r.steps.New = r.newStep
	r.seals, r.untrue = make([][]byte, len(a.Participants)), make([]error, len(a.Participants))
	r.seal = sync.OnceValues(r.sealOwn)
	r.sumsFrame = sync.OnceValue(func() []byte {
		s, _ := r.progress.shareOf(r.Self)
		return s.AppendFrame(nil)
	})
	return r, nil
}

// prepare fixes what the attempt starts from, before any stream may join.
func (r *run) prepare(p *progress) {
	r.progress = p
	r.conns = make(map[*wire.Conn]int)
	r.began, r.late = time.Now(), dialing.NewClock(r.hub.cfg.StallTimeout, len(r.Participants))
	if r.late.Many {
		r.count.PatientUntil = r.late.End
	}
	r.given = p.merges(r.task())
	if r.method.Distances() {
		p.stash.Use(r.slots.Spool)
	} else {
		p.stash.Use(r.slots.Stash)
	}
	r.inbound = make([]*inbound, len(r.Participants))
	if r.own().Count() == 0 {
		return
	}
	for i := range r.Participants {
		if i != r.Self {
			r.inbound[i] = newInbound(p.stash.Held(i, p.merges(r.task())), ring(r.Layout))
		}
	}
}

func (r *run) run(ctx context.Context) (Result, error) {
	if r.Participants[r.Self].Shard.Leaves > 0 {
		r.goDo(r.merge)
		for i, in := range r.inbound {
			if in != nil {
				r.goDo(func() { r.supply(i, in) })
			}
		}
	}
	for k := range len(r.Participants) - 1 { // Each begins with the one behind it: else all would come to the first at once.
		if j := (r.Self + 1 + k) % len(r.Participants); r.Participants[j].Shard.Leaves > 0 {
			r.goDo(func() { r.visit(j) })
		}
	}
	r.wg.Wait()
	r.recent.close()
	r.keepRings()

	r.sealAlone()
	claims := r.claimAll()

	r.mu.Lock()
	r.ended = true
	failure := r.failure
	r.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("run attempt %d of round %d: %w", r.Number, r.Round, context.Cause(ctx))
	}
	if failure != nil {
		failure.BytesReceived = r.count.Received.Load()
		return Result{}, failure
	}
	res := r.progress.result(r.owned)
	r.progress.complete(&res)
	res.Seals, res.Claims = r.seals, claims
	res.SentBytes, res.ReceivedBytes = r.count.Sent.Load(), r.count.Received.Load()
	return res, nil
}

// own returns what this node owns.
func (r *run) own() leafset.Runs { return r.owned[r.Self] }

func (r *run) goDo(f func()) {
	r.wg.Go(f)
}

// over reports whether Run has returned.
func (r *run) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *run) failed() *Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// fail ends the attempt for what this node has seen.
func (r *run) fail(blamed int, reason string, cause error) {
	r.end(&Failure{Blamed: blamed, HeardFrom: -1, Reason: reason, cause: cause})
}

// convict fails the attempt for what participant i tells everybody and can't be true, after a while in which the others can see
// it too: who is only told counts for nothing when it is judged who is left out.
func (r *run) convict(i int, why error) {
	r.mu.Lock()
	r.untrue[i] = why
	r.mu.Unlock()
	t := time.NewTimer(r.hub.cfg.Grace / 4)
	defer t.Stop()
	select {
	case <-r.ctx.Done():
	case <-t.C:
		r.fail(i, why.Error(), why)
	}
}

// seen returns what this node has seen participant i say that can't be true; nil: nothing.
func (r *run) seen(i int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.untrue[i]
}

// heard ends the attempt because participant i has ended it, for what i says. That it did is all that this node knows.
func (r *run) heard(i, blamed int, reason string) {
	r.end(&Failure{Blamed: blamed, HeardFrom: i, Reason: reason})
}

// end ends the attempt unless it is over or another reason came first. All
// streams get the grace time to tell the peers.
func (r *run) end(f *Failure) {
	if f.Blamed >= 0 {
		f.Node = r.Participants[f.Blamed].Node
	}
	r.mu.Lock()
	if r.failure != nil || r.ended || r.ctx.Err() != nil {
		r.mu.Unlock()
		return
	}
	r.failure = f
	conns := r.connsLocked()
	r.mu.Unlock()
	r.cancel(f)
	for _, c := range conns {
		c.EndWithin(r.hub.cfg.Grace)
	}
}

// abort drops all streams: the caller wants to be gone.
func (r *run) abort() {
	r.mu.Lock()
	r.aborted = true
	conns := r.connsLocked()
	r.mu.Unlock()
	for _, c := range conns {
		c.EndWithin(0)
		c.Reset()
	}
}

func (r *run) connsLocked() []*wire.Conn {
	conns := make([]*wire.Conn, 0, len(r.conns))
	for c := range r.conns {
		conns = append(conns, c)
	}
	return conns
}

// attach lets the attempt end the stream to participant i; false when it has ended itself.
func (r *run) attach(i int, c *wire.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.aborted || r.failure != nil {
		return false
	}
	r.conns[c] = i
	c.CountIn(&r.count)
	return true
}

func (r *run) detach(c *wire.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// part says goodbye on a stream of an attempt that failed; the writer calls it.
func (r *run) part(c *wire.Conn) {
	r.mu.Lock()
	f, aborted := r.failure, r.aborted
	r.mu.Unlock()
	if f == nil || aborted {
		return
	}
	c.EndWithin(r.hub.cfg.Grace)
	c.CloseWith(f.frame())
}

// suspect fails the attempt after a write error to participant i, but only when the reading side
// of the same stream had time to learn a better reason. Who owes nothing is not blamed.
func (r *run) suspect(i int, owes bool, reason string, err error) {
	t := time.NewTimer(r.hub.cfg.Grace / 2)
	defer t.Stop()
	select {
	case <-r.ctx.Done():
	case <-t.C:
		if owes {
			r.fail(i, reason+": "+wire.Brief(err), err)
		} else {
			r.heard(i, -1, reason+": "+wire.Brief(err))
		}
	}
}

// peerFailed passes on what a Fail frame from participant i says.
func (r *run) peerFailed(i int, c *wire.Conn, h wire.Header) {
	b, err := c.Payload(h, 1+wire.MaxReason)
	if err != nil {
		r.fail(i, "broke off: "+wire.Brief(err), err)
		return
	}
	f, err := wire.DecodeFail(h.Arg, b, len(r.Participants))
	if err != nil {
		r.fail(i, wire.Brief(err), err)
		return
	}
	r.failFrame(i, f)
}

func (r *run) failFrame(i int, f wire.Fail) {
	switch {
	case f.Code == wire.CodeDenied:
		r.fail(i, "refused the stream: "+f.Reason, nil)
	case f.Code == wire.CodeContents && f.Blamed >= 0:
		r.heard(i, f.Blamed, f.Reason+" (says "+r.Participants[i].Node+")")
	case f.Code == wire.CodeFailed && f.Blamed == r.Self:
		// We know that we live: from here it is the link to the teller that does not carry.
		r.fail(i, "lays the failure to us: "+f.Reason, nil)
	case f.Blamed >= 0 && r.seen(f.Blamed) != nil:
		why := r.seen(f.Blamed)
		r.fail(f.Blamed, why.Error(), why)
	case f.Code == wire.CodeFailed && f.Blamed >= 0 && r.silent(f.Blamed):
		r.fail(f.Blamed, f.Reason+" (says "+r.Participants[i].Node+", and nothing comes here either)", nil)
	case f.Code == wire.CodeFailed && f.Blamed >= 0:
		r.heard(i, f.Blamed, f.Reason+" (says "+r.Participants[i].Node+")")
	case f.Code == wire.CodeHeard && f.Blamed >= 0:
		r.heard(i, f.Blamed, f.Reason)
	default:
		r.heard(i, -1, r.Participants[i].Node+" left the attempt: "+f.Reason)
	}
}

// heardOf returns when participant i last showed life on a stream of this attempt, the zero time if it did not. Who has given all
// that it owes has nothing more to say there.
func (r *run) heardOf(i int) (at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seals[i] != nil {
		return time.Now()
	}
	for c, to := range r.conns {
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

// silent tells whether participant i owes this node bytes and has sent none for half of the stall time: then this node has
// seen for itself what it is told of i, and has only been told first.
func (r *run) silent(i int) bool {
	half := r.hub.cfg.StallTimeout / 2
	early, due := time.Now().Add(-half), r.late.Due(r.began, r.heardOf(i))
	r.mu.Lock()
	defer r.mu.Unlock()
	if in := r.inbound[i]; in != nil && in.c == nil && time.Until(due) <= half {
		return true
	}
	for c, to := range r.conns {
		if since := c.OwedSince(); to == i && !since.IsZero() && !since.After(early) {
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
