package consensus

import (
	"context"
	"errors"
	"sync"
	"time"

	autopilot "github.com/hashicorp/raft-autopilot"

	"github.com/hashicorp/raft"
)

// leadership passes this server's newest role on to those who asked for it.
type leadership struct {
	mu     sync.Mutex
	now    bool
	subs   []chan bool
	closed bool
}

// Leadership returns a channel that receives true when this server has become the leader and has applied everything
// committed before, and false when it is no longer. The first value is the present one. A slow receiver misses values
// in between but never the last; true after true means that leadership was lost and won again. The channel is closed
// when Run ends.
func (g *Group) Leadership() <-chan bool {
	l := &g.lead
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan bool, 1)
	if l.closed {
		close(c)
		return c
	}
	c <- l.now
	l.subs = append(l.subs, c)
	return c
}

// IsLeader tells whether this server leads and has applied everything committed before its term. It may be a lease's
// time out of date: Barrier is for reads that must not be.
func (g *Group) IsLeader() bool { return g.isLead.Load() && g.raft.State() == raft.Leader }

func (l *leadership) set(leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = leads
	for _, c := range l.subs {
		select {
		case <-c: // the older value, which nobody has taken
		default:
		}
		c <- leads
	}
}

func (l *leadership) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	for _, c := range l.subs {
		close(c)
	}
	l.subs = nil
}

// leadershipLoop follows raft's notifications: a new leader first applies all that was committed before it, then is
// announced and starts autopilot.
func (g *Group) leadershipLoop(ctx context.Context) {
	ap := g.newAutopilot()
	settled := make(chan uint64)
	var settling sync.WaitGroup
	var term uint64 // counts the notifications, so that a late settlement is told from a current one
	lose := func() {
		if g.isLead.Swap(false) {
			g.lead.set(false)
			g.log.Info("leadership lost", "node", g.cfg.Name)
		}
		<-ap.Stop()
	}
	defer func() {
		lose()
		settling.Wait()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case won := <-g.notify:
			term++
			lose()
			if won {
				mine := term
				settling.Go(func() { g.settle(ctx, mine, settled) })
			}
		case done := <-settled:
			if done != term || g.raft.State() != raft.Leader {
				continue
			}
			g.heard.Reset(time.Now())
			g.isLead.Store(true)
			g.lead.set(true)
			g.log.Info("leadership won", "node", g.cfg.Name)
			ap.Start(ctx)
		}
	}
}

// settle waits until this new leader has applied everything committed before its term.
func (g *Group) settle(ctx context.Context, term uint64, settled chan<- uint64) {
	err := g.await(ctx, func() error { return g.raft.Barrier(0).Error() })
	if err != nil {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrShutdown) {
			g.log.Debug("leadership did not settle", "err", err)
		}
		return
	}
	select {
	case settled <- term:
	case <-ctx.Done():
	}
}

var _ autopilot.ApplicationIntegration = (*pilot)(nil)
