package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/dialing"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

const (
	maxParked     = 1024 // incoming streams that wait for their plan
	maxParkedEach = 16   // of one node: it needs one per contract

	// BulkBytes is from how many bytes each way on a stream is for bulk: it earns the handshake of a connection for itself, which costs as
	// much as some hundred KiB on one that is shared. Among a hundred nodes the shares of a model are small, and handshakes are many.
	BulkBytes = 1 << 20
)

// ErrDenied is returned by Serve when a stream's sender is not the participant
// that it says, or holds another plan.
var ErrDenied = errors.New("stream is denied")

// ErrNotReady is returned by Serve when no plan came for a parked stream.
var ErrNotReady = errors.New("no such attempt is planned here yet")

// Dial opens a stream to a participant. It must end with its context. A stream for bulk carries [BulkBytes] or more each way.
type Dial func(ctx context.Context, participant int, bulk bool) (wire.Stream, error)

// Hub joins incoming streams with the attempts of this node and keeps what
// must outlive an attempt: progress and idle streams. It is safe for
// concurrent use; contracts are independent of each other.
type Hub struct {
	cfg      Config
	opening  *dialing.Limiter
	idle     idleStreams
	sent     atomic.Uint64
	received atomic.Uint64

	mu        sync.Mutex // guards all below
	contracts map[string]*contract
	parked    map[string]int // by node; no entry is 0
	waiting   int            // sum of parked
	closed    bool
	changed   chan struct{} // closed and replaced when an attempt begins
}

// contract is the newest attempt of one contract and its progress.
type contract struct {
	begun    map[attemptKey]bool // attempts of run's round that were begun here: none is twice
	run      *run
	progress *progress
}

// attemptKey is an attempt by what is signed of it: one of another plan is another one, whoever made that plan up.
type attemptKey struct {
	number uint64
	plan   merge.Digest
}

// maxAttempts bounds the attempts of a round that a node begins out of order.
const maxAttempts = 4096

// mayBegin reports whether an attempt of the newest one's round may begin here although its number is not higher: an SN may have made up
// the newest one, and must not make this node deaf to the attempts that there are.
func (k *contract) mayBegin(run, round uint64, b attemptKey) bool {
	return k.run.plan.Run == run && k.run.plan.Round == round && !k.begun[b] && len(k.begun) < maxAttempts
}

// NewHub returns an empty hub.
func NewHub(cfg Config) *Hub {
	cfg = cfg.withDefaults()
	return &Hub{
		cfg:       cfg,
		opening:   dialing.NewLimiter(cfg.StallTimeout),
		contracts: make(map[string]*contract),
		parked:    make(map[string]int),
		changed:   make(chan struct{}),
	}
}

// Close drops the idle streams and the scratch files. Attempts and Serve end
// with their contexts, and an attempt's scratch file with it.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for _, k := range h.contracts {
		if k.run.lifecycle.over() {
			k.progress.release()
		}
	}
	h.mu.Unlock()
	h.idle.close()
}

// Forget drops what is kept about a contract that no attempt runs for, scratch
// file included.
func (h *Hub) Forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.contracts[name]; k != nil && k.run.lifecycle.over() {
		k.progress.release()
		delete(h.contracts, name)
	}
}

// Run takes part in one attempt and blocks until it is complete here: all
// leaves merged are held, and all other participants were given the own shard.
// What it returns lacks what its node signs: ShardsDigest and Signature. Claims
// in it may differ from the digests of shards: that is for the leader to judge.
// It returns *Failure when the attempt failed, an error wrapping ErrPlan or
// ErrSuperseded when it never began, and the context's error when that ended;
// no goroutine touches the slots afterwards. An older attempt of the same
// contract must have returned.
func (h *Hub) Run(ctx context.Context, a Attempt, slots Slots, dial Dial) (*round.Done, error) {
	r, err := newRun(h, a, slots, dial)
	if err != nil {
		return nil, fmt.Errorf("run attempt %d of round %d: %w", a.Number, a.Round, err)
	}
	return h.carryOut(ctx, r)
}

// carryOut runs an attempt that was checked.
func (h *Hub) carryOut(ctx context.Context, r *run) (*round.Done, error) {
	r.lifecycle = newLifecycle(ctx, r.plan, h.cfg.Grace)
	defer r.lifecycle.cancel(nil)
	if err := h.begin(r); err != nil {
		return nil, fmt.Errorf("run attempt %d of round %d: %w", r.plan.Number, r.plan.Round, err)
	}
	defer h.finish(r)
	stop := context.AfterFunc(ctx, r.lifecycle.abort)
	defer stop()
	done, err := r.run(ctx)
	if err == nil {
		h.sent.Add(r.lifecycle.count.Sent.Load())
		h.received.Add(r.lifecycle.count.Received.Load())
	}
	return done, err
}

// SentBytes counts what the streams of complete attempts have sent, payload and framing.
func (h *Hub) SentBytes() uint64 { return h.sent.Load() }

// ReceivedBytes counts what they have received.
func (h *Hub) ReceivedBytes() uint64 { return h.received.Load() }

// finish lets go of the attempt, and of what it kept if no other will come.
func (h *Hub) finish(r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(r.lifecycle.done)
	if h.closed {
		r.progress.release()
	}
}

// begin makes r the newest attempt of its contract.
func (h *Hub) begin(r *run) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.contracts[r.plan.Contract]
	if k == nil {
		k = &contract{}
		h.contracts[r.plan.Contract] = k
	} else {
		o := k.run
		if !before(o.plan.Run, o.plan.Round, o.plan.Number, r.plan.Run, r.plan.Round, r.plan.Number) && !k.mayBegin(r.plan.Run, r.plan.Round, attemptKey{r.plan.Number, r.plan.digest}) {
			return fmt.Errorf("%w by attempt %d of round %d", ErrSuperseded, o.plan.Number, o.plan.Round)
		}
		if !o.lifecycle.over() {
			return fmt.Errorf("%w: attempt %d of round %d has not returned yet", ErrPlan, o.plan.Number, o.plan.Round)
		}
		if o.plan.Run != r.plan.Run || o.plan.Round != r.plan.Round {
			k.begun = nil
		}
	}
	if k.run = r; k.begun == nil {
		k.begun = map[attemptKey]bool{}
	}
	k.begun[attemptKey{r.plan.Number, r.plan.digest}] = true
	// The first attempt of a round starts from nothing on every node, which is
	// why nobody has to wait for an owner's bitmap in it.
	if p := k.progress; p == nil || r.plan.Number == 1 || !p.canResume(r.plan.digest, r.slots.Name) {
		if p != nil {
			p.release()
		}
		k.progress = newProgress(r.plan, r.slots.Name)
	}
	r.prepare(k.progress)
	close(h.changed)
	h.changed = make(chan struct{})
	return nil
}

// Serve handles one incoming stream from the node whose name the connection
// proved. It blocks until the stream ends and closes it. It returns nil when
// the peer closed the stream between attempts, and otherwise why it ended,
// which the attempt concerned has been told already.
func (h *Hub) Serve(ctx context.Context, s wire.Stream, from string) error {
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	c := wire.NewConn(s, h.cfg.StallTimeout)
	defer func() { _ = s.Close() }()
	head, err := c.Next(true)
	for {
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serve %s: %w", from, err)
		}
		s, err2 := h.greet(ctx, c, head, from)
		if err2 != nil {
			return fmt.Errorf("serve %s: %w", from, err2)
		}
		if err2 = s.serve(c); err2 != nil {
			return fmt.Errorf("serve %s: %w", from, err2)
		}
		head, err = s.linger(c)
	}
}

// greet reads the rest of a Hello and binds the stream to its attempt, or says why not.
func (h *Hub) greet(ctx context.Context, c *wire.Conn, head wire.Header, from string) (*serverStream, error) {
	if head.Kind != wire.KindHello {
		c.Reset()
		return nil, fmt.Errorf("%w: kind %d instead of a hello", wire.ErrFrame, head.Kind)
	}
	b, err := c.Payload(head, wire.MaxHello)
	if err != nil {
		c.Reset()
		return nil, err
	}
	hi, err := wire.DecodeHello(head.Arg, b)
	if err != nil {
		c.Reset()
		return nil, err
	}
	c.NoDeadline()
	r, err := h.match(ctx, hi, from)
	if err == nil {
		if s := r.servers[hi.Sender]; s != nil && s.claim(c) {
			return s, nil
		}
		err = fmt.Errorf("%w: a second stream of one attempt, or one that is over", ErrSuperseded)
	}
	c.EndWithin(h.cfg.Grace)
	c.CloseWith(refusal(r, err))
	c.Drain()
	return nil, err
}

// refusal is what a refused sender is told. Of an attempt that failed it
// learns who was blamed, so that it does not blame this node.
func refusal(r *run, err error) wire.Fail {
	f := wire.Fail{Blamed: -1, Code: wire.CodeSuperseded, Reason: err.Error()}
	switch {
	case errors.Is(err, ErrNotReady):
		f.Code = wire.CodeNotReady
	case errors.Is(err, ErrDenied):
		f.Code = wire.CodeDenied
	case r != nil:
		if cause := r.lifecycle.failed(); cause != nil {
			return cause.frame()
		}
	}
	return f
}

// match waits for the attempt of a hello for at most the parking time.
func (h *Hub) match(ctx context.Context, hi wire.Hello, from string) (*run, error) {
	timer := time.NewTimer(h.cfg.ParkTime)
	defer timer.Stop()
	for parked := false; ; {
		h.mu.Lock()
		if parked {
			h.unparkLocked(from)
		}
		r, err := h.findLocked(hi, from)
		if err != nil || r != nil {
			h.mu.Unlock()
			return r, err
		}
		if h.waiting >= maxParked || h.parked[from] >= maxParkedEach {
			h.mu.Unlock()
			return nil, fmt.Errorf("%w: too many streams wait", ErrNotReady)
		}
		h.waiting++
		h.parked[from]++
		parked = true
		changed := h.changed
		h.mu.Unlock()

		err = nil
		select {
		case <-changed:
			continue
		case <-timer.C:
			err = ErrNotReady
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		h.mu.Lock()
		h.unparkLocked(from)
		h.mu.Unlock()
		return nil, err
	}
}

func (h *Hub) unparkLocked(from string) {
	h.waiting--
	if h.parked[from]--; h.parked[from] == 0 {
		delete(h.parked, from)
	}
}

// findLocked returns neither a run nor an error when the plan is not known yet.
func (h *Hub) findLocked(hi wire.Hello, from string) (*run, error) {
	k := h.contracts[hi.Contract]
	if k == nil {
		return nil, nil
	}
	r := k.run
	if before(r.plan.Run, r.plan.Round, r.plan.Number, hi.Run, hi.Round, hi.Number) {
		return nil, nil
	}
	older := before(hi.Run, hi.Round, hi.Number, r.plan.Run, r.plan.Round, r.plan.Number)
	if (older || hi.Plan != r.plan.digest) && r.lifecycle.over() && k.mayBegin(hi.Run, hi.Round, attemptKey{hi.Number, hi.Plan}) {
		return nil, nil
	}
	if older {
		return nil, fmt.Errorf("%w by attempt %d of round %d", ErrSuperseded, r.plan.Number, r.plan.Round)
	}
	if hi.Sender >= len(r.plan.Participants) || r.plan.Participants[hi.Sender].Node != from || hi.Sender == r.plan.Self {
		return nil, fmt.Errorf("%w: %s is not participant %d", ErrDenied, from, hi.Sender)
	}
	if hi.Plan != r.plan.digest {
		return nil, fmt.Errorf("%w: plans differ: participants, weights, shards, layout or method are not the same", ErrDenied)
	}
	if r.plan.Participants[r.plan.Self].Shard.Leaves == 0 {
		return nil, fmt.Errorf("%w: this node owns no leaves", ErrDenied)
	}
	return r, nil
}
