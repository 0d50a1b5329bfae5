package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/python"
)

// stopGrace is how long a program may take to end when the daemon is stopped.
const stopGrace = 5 * time.Second

// Run starts the program and stays until it has ended and nobody needs this node any more. It returns the exit code. When ctx
// ends the program is stopped, and its error is ctx's. One that is started by hand is never seen to end.
func (r *Runner) Run(ctx context.Context, engine *session.Engine) (int, error) {
	if r.how == nil {
		return r.awaitHand(ctx, engine)
	}
	started, err := r.start(ctx, engine)
	if err != nil {
		r.tell(ctx, engine, 1, err.Error(), nil) // a session that was adopted waits for a program
		return 1, err
	}
	watched, stopWatch := context.WithCancel(ctx)
	defer stopWatch()
	late := r.stopWithoutSession(watched, started, engine)
	exit := started.Wait()
	if ctx.Err() != nil {
		return status(exit), ctx.Err()
	}
	if late.Load() {
		return 1, r.lateError()
	}
	return r.judge(ctx, engine, exit)
}

// awaitHand says how a program is started by hand, and stays until ctx ends and those who still want its final model have it.
func (r *Runner) awaitHand(ctx context.Context, engine lingering) (int, error) {
	var packageDir string
	if !r.cfg.Contained {
		var err error
		if packageDir, err = launch.Extract(python.Source(), filepath.Join(r.cfg.StateDir, "python")); err != nil {
			return 1, err
		}
	}
	r.cfg.Log.Info("waiting for a program that is started by hand", "bridge_dir", r.cfg.BridgeDir)
	fmt.Fprintln(r.cfg.Stdout, launch.Exports(r.cfg.Node, r.cfg.BridgeDir, packageDir))
	<-ctx.Done()
	r.lingerStopped(ctx, engine)
	return 0, ctx.Err()
}

// stopWithoutSession ends a program that has not opened a session in time, if a time is set and it is to open one. The result reports whether.
func (r *Runner) stopWithoutSession(ctx context.Context, started Running, engine *session.Engine) *atomic.Bool {
	late := new(atomic.Bool)
	if r.cfg.SessionTimeout <= 0 || r.cfg.trainsAlone() {
		return late
	}
	go func() {
		timer := time.NewTimer(r.cfg.SessionTimeout)
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
