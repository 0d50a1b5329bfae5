package nodetest

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/node"
)

// container keeps a program running while its daemons come and go. It is the bridge.Handler that the program knows: a call
// that no daemon has answered is repeated at the next one, as the Python package does.
type container struct {
	run   *Run
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu      sync.Mutex // guards what follows
	daemon  *daemon    // nil: none serves
	changed chan struct{}
}

// daemon is one life's bridge.
type daemon struct {
	bridge.Handler
	gone context.Context // the daemon's life
}

var _ bridge.Handler = (*container)(nil)

func newContainer(run *Run) *container {
	ctx, stop := context.WithCancel(context.Background())
	c := &container{run: run, stop: stop, changed: make(chan struct{})}
	c.tasks.Go(func() {
		err := run.train(ctx, c)
		run.finish(err)
	})
	return c
}

// kill ends the program; a nil container has none.
func (c *container) kill() {
	if c != nil {
		c.stop()
		c.tasks.Wait()
	}
}

// serve lets a daemon answer the program from when its train is called until its context ends or the program does.
func (c *container) serve(h node.BridgeHandler) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		c.put(&daemon{h, ctx})
		defer c.put(nil)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.run.Done():
			return c.run.Err()
		}
	}
}

func (c *container) put(d *daemon) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.daemon = d
	close(c.changed)
	c.changed = make(chan struct{})
}

// call repeats a call until a daemon that lives has answered it.
func call[T any](ctx context.Context, c *container, fn func(h bridge.Handler) (T, error)) (T, error) {
	for {
		c.mu.Lock()
		d, changed := c.daemon, c.changed
		c.mu.Unlock()
		if d != nil {
			v, err := fn(d)
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
func (c *container) Open(ctx context.Context, req bridge.OpenRequest) (bridge.OpenResult, error) {
	return call(ctx, c, func(h bridge.Handler) (bridge.OpenResult, error) { return h.Open(ctx, req) })
}

// Sync implements bridge.Handler.
func (c *container) Sync(ctx context.Context, req wire.SyncRequest) (bridge.SyncResult, error) {
	return c.poll(ctx, func(h bridge.Handler) (bridge.SyncResult, error) { return h.Sync(ctx, req) })
}

// Close implements bridge.Handler.
func (c *container) Close(ctx context.Context, req wire.CloseRequest) (bridge.SyncResult, error) {
	return c.poll(ctx, func(h bridge.Handler) (bridge.SyncResult, error) { return h.Close(ctx, req) })
}

// poll is call for the two that block: no daemon in time means to ask again.
func (c *container) poll(ctx context.Context, fn func(h bridge.Handler) (bridge.SyncResult, error)) (bridge.SyncResult, error) {
	res, err := call(ctx, c, fn)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &bridge.PendingError{Waiting: "waiting for the swarm daemon to return"}
	}
	return res, err
}

// Report implements bridge.Handler.
func (c *container) Report(ctx context.Context, req wire.ReportRequest) error {
	_, err := call(ctx, c, func(h bridge.Handler) (any, error) { return nil, h.Report(ctx, req) })
	return err
}

// Abort implements bridge.Handler.
func (c *container) Abort(ctx context.Context, req wire.AbortRequest) error {
	_, err := call(ctx, c, func(h bridge.Handler) (any, error) { return nil, h.Abort(ctx, req) })
	return err
}

// openJournal opens what an SL's earlier life left, nil if programs die with their daemons.
func (n *sl) openJournal(log *slog.Logger) *session.Journal {
	if !n.swarm.cfg.Containers {
		return nil
	}
	if n.journal == "" {
		n.journal = filepath.Join(n.swarm.t.TempDir(), "session.json")
	}
	n.record = session.OpenJournal(n.journal, log)
	return n.record
}

// takeUp has a new life go on with the session of a program that lives on, and forget any other.
func (n *sl) takeUp(engine *session.Engine) {
	if n.record == nil {
		return
	}
	saved := n.record.Record().Session
	switch {
	case n.container == nil || n.container.run.isDone():
		n.record.Forget()
	case saved != nil:
		engine.Resume(saved)
	}
}

// openSlots gives a new life the weight files of the one before.
func (n *sl) openSlots(_ int64, local, committed string) (session.Slots, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	turns := map[string]int{"": 0, slotNames[1]: 1, slotNames[2]: 2}
	turn, ok := turns[committed]
	if n.slots == nil || local != slotNames[0] || !ok {
		return nil, errors.New("no such weight files")
	}
	n.slots.mu.Lock()
	defer n.slots.mu.Unlock()
	n.slots.turn = turn
	return n.slots, nil
}
