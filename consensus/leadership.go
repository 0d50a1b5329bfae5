package consensus

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	autopilot "github.com/hashicorp/raft-autopilot"

	"github.com/swarmd/swarmd/consensus/roster"
)

// leadership follows whether this server leads, and passes that on to those who asked for it. While it leads autopilot runs.
type leadership struct {
	replica   *replica
	heard     *roster.Roster
	log       *slog.Logger
	notify    chan bool // raft's leadership changes
	autopilot *autopilot.Autopilot

	mu     sync.Mutex
	now    bool
	subs   []chan bool
	closed bool
}

// subscribe is [Group.Leadership].
func (l *leadership) subscribe() <-chan bool {
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

// run follows raft's notifications until ctx ends: a new leader first applies all that was committed before it, then is
// announced and starts autopilot.
func (l *leadership) run(ctx context.Context) {
	settled := make(chan uint64)
	var settling sync.WaitGroup
	var term uint64 // counts the notifications, so that a late settlement is told from a current one
	lose := func() {
		if l.replica.settled.Swap(false) {
			l.set(false)
			l.log.Info("leadership lost", "node", l.replica.name)
		}
		<-l.autopilot.Stop()
	}
	defer func() {
		lose()
		settling.Wait()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case won := <-l.notify:
			term++
			lose()
			if won {
				mine := term
				settling.Go(func() { l.settle(ctx, mine, settled) })
			}
		case done := <-settled:
			if done != term || !l.replica.elected() {
				continue
			}
			l.heard.Reset(time.Now())
			l.replica.settled.Store(true)
			l.set(true)
			l.log.Info("leadership won", "node", l.replica.name)
			l.autopilot.Start(ctx)
		}
	}
}

// settle waits until this new leader has applied everything committed before its term.
func (l *leadership) settle(ctx context.Context, term uint64, settled chan<- uint64) {
	err := l.replica.await(ctx, func() error { return l.replica.raft.Barrier(0).Error() })
	if err != nil {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrShutdown) {
			l.log.Debug("leadership did not settle", "err", err)
		}
		return
	}
	select {
	case settled <- term:
	case <-ctx.Done():
	}
}

// ends returns a channel that receives raft's error when raft has ended. Raft may block on a leadership change that nobody reads
// any more, so those are discarded meanwhile.
func (l *leadership) ends(ended raft.Future) <-chan error {
	down, told := make(chan error, 1), make(chan error, 1)
	go func() { down <- ended.Error() }()
	go func() {
		for {
			select {
			case <-l.notify:
			case err := <-down:
				told <- err
				return
			}
		}
	}()
	return told
}
