package nodetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/runner"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

// daemon is one run's side of the bridge.
type daemon struct {
	bridge.Handler
	gone context.Context // the run; its end is a crash
}

// memoryBridge is runner.Bridge without a socket: the program calls the handler.
type memoryBridge struct {
	sl     *sl
	daemon *daemon
	ready  chan struct{}
}

var _ runner.Bridge = (*memoryBridge)(nil)

// Claim implements runner.Bridge.
func (b *memoryBridge) Claim(bool) error { return nil }

// Resume implements runner.Bridge.
func (b *memoryBridge) Resume(string, string, int, int) {}

// Release implements runner.Bridge.
func (b *memoryBridge) Release() {}

// Ready implements runner.Bridge.
func (b *memoryBridge) Ready() <-chan struct{} { return b.ready }

// Run implements runner.Bridge.
func (b *memoryBridge) Run(ctx context.Context) error {
	if b.daemon.gone.Err() == nil {
		b.sl.entry.put(b.daemon)
	}
	close(b.ready)
	<-ctx.Done()
	b.sl.entry.leave(b.daemon)
	return nil
}

// CreateSlots implements runner.Bridge.
func (b *memoryBridge) CreateSlots(bytes int64) (models.Slots, error) { return b.sl.newSlots(bytes) }

// OpenSlots implements runner.Bridge.
func (b *memoryBridge) OpenSlots(bytes int64, local, committed string) (models.Slots, error) {
	return b.sl.openSlots(bytes, local, committed)
}

// running is runner.Running.
type running struct {
	id   string
	done chan struct{}
	exit launch.Exit // set before done is closed
	stop context.CancelFunc
}

var _ runner.Running = (*running)(nil)

// ID implements runner.Running.
func (r *running) ID() string { return r.id }

// Done implements runner.Running.
func (r *running) Done() <-chan struct{} { return r.done }

// Wait implements runner.Running.
func (r *running) Wait() launch.Exit {
	<-r.done
	return r.exit
}

// Stop implements runner.Running.
func (r *running) Stop(time.Duration) { r.stop() }

// exitOf is how a program ends that has returned err.
func exitOf(err error) launch.Exit {
	if err != nil {
		return launch.Exit{ExitCode: 1, Tail: []string{err.Error()}}
	}
	return launch.Exit{}
}

// startProcess starts a run of the program that dies with the daemon.
func (n *sl) startProcess(ctx context.Context, run *Run) runner.Running {
	ctx, stop := context.WithCancel(ctx)
	r := &running{id: "1", done: make(chan struct{}), stop: stop}
	d, _ := n.entry.now()
	n.tasks.Go(func() {
		defer stop()
		err := errLeft // a crash was faster
		if d != nil {
			err = run.train(ctx, d)
		}
		run.finish(err)
		r.exit = exitOf(err)
		close(r.done)
	})
	return r
}

// entry is the bridge.Handler that a program in a container knows: a call that no daemon has answered is repeated at the next one, as the
// Python package does.
type entry struct {
	mu      sync.Mutex // guards what follows
	daemon  *daemon    // nil: none serves
	changed chan struct{}
}

var _ bridge.Handler = (*entry)(nil)

func (e *entry) put(d *daemon) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setLocked(d)
}

// leave ends that a daemon serves; nil: whichever does.
func (e *entry) leave(d *daemon) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d == nil || e.daemon == d {
		e.setLocked(nil)
	}
}

func (e *entry) setLocked(d *daemon) {
	e.daemon = d
	if e.changed != nil {
		close(e.changed)
	}
	e.changed = make(chan struct{})
}

func (e *entry) now() (*daemon, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.daemon, e.changed
}

// call repeats a call until a daemon that lives has answered it.
func call[T any](ctx context.Context, e *entry, fn func(ctx context.Context, h bridge.Handler) (T, error)) (T, error) {
	for {
		d, changed := e.now()
		if d != nil {
			own, cancel := context.WithCancel(ctx)
			stop := context.AfterFunc(d.gone, cancel)
			v, err := fn(own, d)
			stop()
			cancel()
			var stopped *session.Error
			if d.gone.Err() == nil && (!errors.As(err, &stopped) || stopped.Code != "DAEMON_STOPPED") {
				return v, err
			}
		}
		select {
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		case <-changed:
		}
	}
}

// Open implements bridge.Handler.
func (e *entry) Open(ctx context.Context, req wire.OpenRequest, layout *merge.Layout) (bridge.OpenResult, error) {
	return call(ctx, e, func(ctx context.Context, h bridge.Handler) (bridge.OpenResult, error) {
		return h.Open(ctx, req, layout)
	})
}

// Sync implements bridge.Handler.
func (e *entry) Sync(ctx context.Context, req wire.SyncRequest) (wire.SyncResponse, error) {
	return e.poll(ctx, func(ctx context.Context, h bridge.Handler) (wire.SyncResponse, error) { return h.Sync(ctx, req) })
}

// Close implements bridge.Handler.
func (e *entry) Close(ctx context.Context, req wire.CloseRequest) (wire.SyncResponse, error) {
	return e.poll(ctx, func(ctx context.Context, h bridge.Handler) (wire.SyncResponse, error) { return h.Close(ctx, req) })
}

// poll is call for the two that block: no daemon in time means to ask again.
func (e *entry) poll(ctx context.Context, fn func(ctx context.Context, h bridge.Handler) (wire.SyncResponse, error)) (wire.SyncResponse, error) {
	res, err := call(ctx, e, fn)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &bridge.PendingError{Waiting: "waiting for the swarm daemon to return"}
	}
	return res, err
}

// Report implements bridge.Handler.
func (e *entry) Report(ctx context.Context, req wire.ReportRequest) error {
	_, err := call(ctx, e, func(ctx context.Context, h bridge.Handler) (any, error) { return nil, h.Report(ctx, req) })
	return err
}

// Abort implements bridge.Handler.
func (e *entry) Abort(ctx context.Context, req wire.AbortRequest) error {
	_, err := call(ctx, e, func(ctx context.Context, h bridge.Handler) (any, error) { return nil, h.Abort(ctx, req) })
	return err
}
