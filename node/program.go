package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/session"
)

// stopGrace is how long a program may take to end when the daemon is stopped.
const stopGrace = 5 * time.Second

// running is an ML program that was started, or taken up from an earlier life of the daemon.
type running interface {
	ID() string // for logs
	// Done is closed when it has ended, Wait blocks until then and tells how.
	Done() <-chan struct{}
	Wait() launch.Exit
	Stop(grace time.Duration)
}

// runner starts an SL's program in its runtime.
type runner interface {
	runtime() string   // "process" or "docker"
	isolation() string // what keeps the program in, for the other peers
	// start starts the program, or takes up the one that takeUp has found. When ctx ends it is stopped.
	start(ctx context.Context) (running, error)
}

// program is the ML program of an SL, ready to start.
type program struct {
	cfg SLConfig
	how runner
	// finished is told of the contract and run that the program has ended well with the final model of; nil: nobody is.
	finished func(contract string, run uint64)
}

// run starts the program and stays until it has ended and nobody needs this node any more. It returns the exit code. When ctx
// ends the program is stopped, and its error is ctx's.
func (p *program) run(ctx context.Context, engine *session.Engine) (int, error) {
	started, err := p.how.start(ctx)
	if err != nil {
		p.tell(ctx, engine, 1, err.Error(), nil) // a session that was taken up waits for a program
		return 1, err
	}
	watched, stopWatch := context.WithCancel(ctx)
	defer stopWatch()
	late := p.stopWithoutSession(watched, started, engine)
	exit := started.Wait()
	if ctx.Err() != nil {
		return status(exit), ctx.Err()
	}
	if late.Load() {
		return 1, p.lateError()
	}
	return p.judge(ctx, engine, exit)
}

// stopWithoutSession ends a program that has not opened a session in time, if a time is set. The result tells whether.
func (p *program) stopWithoutSession(ctx context.Context, started running, engine *session.Engine) *atomic.Bool {
	late := new(atomic.Bool)
	if p.cfg.SessionTimeout <= 0 {
		return late
	}
	go func() {
		timer := time.NewTimer(p.cfg.SessionTimeout)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-started.Done():
			return
		case <-timer.C:
		}
		if outcome, _ := engine.Outcome(); outcome == session.NoSession {
			late.Store(true)
			started.Stop(stopGrace)
		}
	}()
	return late
}
