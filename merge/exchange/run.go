package exchange

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge/exchange/dialing"
	"github.com/swarmd/swarmd/merge/exchange/inventory"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/schedule"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// run is one attempt in progress at this node: it puts together what takes part in it, each with what that needs.
type run struct {
	hub       *Hub
	slots     Slots
	dial      Dial
	plan      *assignment
	lifecycle *lifecycle

	// From prepare on:
	progress   *progress
	signer     signer
	sealing    *sealing
	store      *store
	accumulate *accumulator
	servers    []*serverStream // by participant; nil for self and when nothing is owned
	clients    []*client       // each begins with the one behind it: else all would come to the first at once
}

// newRun checks the attempt.
func newRun(h *Hub, a Attempt, slots Slots, dial Dial) (*run, error) {
	plan, err := newAssignment(a)
	if err != nil {
		return nil, err
	}
	return &run{hub: h, slots: slots, dial: dial, plan: plan, signer: signer{plan, &h.cfg}}, nil
}

// prepare fixes what the attempt starts from, before any stream may join.
func (r *run) prepare(p *progress) {
	cfg, plan := &r.hub.cfg, r.plan
	clock := dialing.NewClock(cfg.StallTimeout, len(plan.Participants))
	if clock.Many {
		r.lifecycle.count.GraceUntil = clock.End
	}
	p.useFiles(&r.slots)
	codec := leafio.NewCodec(plan.Layout, plan.method, r.slots.Base)
	r.progress, r.store, r.sealing = p, newStore(plan, codec, r.slots.Merged, p), newSealing(plan, r.signer, p)
	r.servers = make([]*serverStream, len(plan.Participants))
	judge := &judge{
		plan: plan, lifecycle: r.lifecycle, sealing: r.sealing, clock: clock, cfg: cfg, began: time.Now(), hasBase: r.slots.Base != nil,
		shorten: codec.Shortens(), untrue: make([]error, len(plan.Participants)),
		unopened: func(i int) bool { return r.servers[i] != nil && r.servers[i].conn() == nil },
	}
	scheduler := &sendScheduler{plan: plan, ctx: r.lifecycle.ctx, sched: schedule.New(cfg.StallTimeout)}
	if plan.localRuns().Count() > 0 {
		r.prepareOwner(codec, judge, scheduler)
	}
	dial := &dialer{plan: plan, ctx: r.lifecycle.ctx, cfg: cfg, clock: clock, limiter: r.hub.opening, dial: r.dial, idle: &r.hub.idle}
	fetch := &fetcher{plan: plan, lifecycle: r.lifecycle, judge: judge, codec: codec, progress: p, store: r.store, sealing: r.sealing}
	send := &contribution{
		plan: plan, lifecycle: r.lifecycle, codec: codec, local: r.slots.Local, progress: p, signer: r.signer, scheduler: scheduler, stall: cfg.StallTimeout,
	}
	for k := range len(plan.Participants) - 1 {
		if j := (plan.Self + 1 + k) % len(plan.Participants); plan.Participants[j].Shard.Leaves > 0 {
			r.clients = append(r.clients, &client{plan: plan, j: j, lifecycle: r.lifecycle, dial: dial, fetch: fetch, send: send})
		}
	}
}

// prepareOwner adds what merges the own shard: from every participant a stream.
func (r *run) prepareOwner(codec *leafio.Codec, judge *judge, scheduler *sendScheduler) {
	cfg, plan, p := &r.hub.cfg, r.plan, r.progress
	watchdog := newWatchdog(cfg.StallTimeout)
	rings := make([]*leafio.Ring, len(plan.Participants))
	r.accumulate = &accumulator{
		plan: plan, lifecycle: r.lifecycle, progress: p, store: r.store, codec: codec, signer: r.signer, spool: r.slots.Spool, given: p.merges(plan.task()),
		collect: &collector{
			plan: plan, codec: codec, local: r.slots.Local, progress: p, rings: rings, work: watchdog.task(), done: r.lifecycle.ctx.Done(),
			copies: plan.witnessed(),
		},
	}
	share := sync.OnceValue(func() []byte {
		s, _ := p.distances.ShareOf(plan.Self)
		return s.AppendFrame(nil)
	})
	for i := range plan.Participants {
		if i == plan.Self {
			continue
		}
		rings[i] = leafio.NewRing(plan.Layout)
		r.servers[i] = newServerStream(plan, i, r.lifecycle, judge)
		r.servers[i].receive = &receiver{
			plan: plan, i: i, codec: codec, judge: judge, signer: r.signer, progress: p, ring: rings[i], given: p.received(i, plan.task()),
			done: r.lifecycle.ctx.Done(), spillAfter: cfg.SpillAfter, work: watchdog.task(),
		}
		r.servers[i].distributor = &distributor{
			plan: plan, i: i, lifecycle: r.lifecycle, codec: codec, progress: p, store: r.store, sealing: r.sealing, scheduler: scheduler, watchdog: watchdog,
			share: share, stall: cfg.StallTimeout,
		}
	}
}

// run takes part until the attempt is over.
func (r *run) run(ctx context.Context) (*round.Done, error) {
	var wg sync.WaitGroup
	if r.accumulate != nil {
		wg.Go(r.accumulate.run)
	}
	for _, s := range r.servers {
		if s != nil {
			wg.Go(s.send)
		}
	}
	for _, c := range r.clients {
		wg.Go(c.run)
	}
	wg.Wait()
	r.store.cache.Close()
	for i, s := range r.servers { // What came in but was not merged should not have to come again.
		if s != nil {
			s.receive.ring.Drain(func(leaf int, b []byte) { r.progress.keep(i, leaf, b) })
		}
	}
	claims, err := r.conclude()
	if err != nil {
		r.lifecycle.fail(r.plan.Self, wire.Brief(err), err)
	}
	failure := r.lifecycle.close()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("run attempt %d of round %d: %w", r.plan.Number, r.plan.Round, context.Cause(ctx))
	}
	if failure != nil {
		failure.BytesReceived = r.lifecycle.count.Received.Load()
		return nil, failure
	}
	done := r.progress.done(r.plan)
	done.Seals, done.Claims = r.sealing.all(), claims
	return done, nil
}

// conclude signs what this node has merged.
func (r *run) conclude() ([]round.Claim, error) {
	if err := r.sealing.addLocal(); err != nil {
		return nil, err
	}
	done, _ := r.progress.finished(r.plan.task())
	if done && r.plan.witnessed() && r.lifecycle.failed() == nil && r.lifecycle.ctx.Err() == nil {
		return r.claims(r.progress.record)
	}
	return nil, nil
}

// claims returns what this node has made of each shard of its task, all of which is merged.
func (r *run) claims(rec *inventory.Record) ([]round.Claim, error) {
	var claims []round.Claim
	for _, owner := range r.plan.shards[r.plan.Self] {
		c := round.Claim{Owner: owner, Merged: rec.MergedDigest(owner)}
		if d := r.progress.distances; d != nil {
			c.Sums = d.Claimed(owner).Digest()
		}
		for _, i := range r.plan.contributors {
			in, err := rec.Input(owner, i), error(nil)
			if i == r.plan.Self {
				in, err = r.signer.input(rec, owner)
			}
			if err != nil {
				return nil, err
			}
			c.Inputs = append(c.Inputs, in)
		}
		claims = append(claims, c)
	}
	return claims, nil
}
