package nodetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/runner"
	"github.com/swarmd/swarmd/internal/session/models"
)

// program keeps running in its container while daemons come and go.
type program struct {
	run         *Run
	incarnation string
	stop        context.CancelFunc
	tasks       sync.WaitGroup
	began       time.Time
	ended       time.Time // set before run is done
}

// kill ends the program; a nil one has ended.
func (p *program) kill() {
	if p != nil {
		p.stop()
		p.tasks.Wait()
	}
}

// containers are runner.Containers in memory, of which an SL has one at most, as one run of the daemon knows them.
type containers struct {
	sl  *sl
	run *Run // to be started; nil: none
}

var _ runner.Containers = containers{}

// Client implements runner.Containers.
func (c containers) Client(context.Context, container.Spec) (string, error) {
	return launch.ClientOwn, nil
}

// Close implements runner.Containers.
func (c containers) Close() error { return nil }

// Find implements runner.Containers.
func (c containers) Find(_ context.Context, node, scope string) ([]container.Found, error) {
	p := c.sl.contained()
	if p == nil {
		return nil, nil
	}
	f := container.Found{ID: "memory", Name: "memory", Node: node, Scope: scope, Incarnation: p.incarnation, State: "running", Started: p.began}
	if p.run.isDone() {
		f.State, f.Finished, f.ExitCode = "exited", p.ended, exitOf(p.run.Err()).ExitCode
	}
	return []container.Found{f}, nil
}

// Start implements runner.Containers.
func (c containers) Start(ctx context.Context, spec container.Spec) (runner.Running, error) {
	if c.run == nil {
		return nil, errors.New("the program of before was to be adopted")
	}
	inside, stop := context.WithCancel(context.Background())
	p := &program{run: c.run, incarnation: spec.Incarnation, stop: stop, began: time.Now()}
	c.sl.contain(p)
	p.tasks.Go(func() {
		err := p.run.train(inside, &c.sl.entry)
		p.ended = time.Now()
		p.run.finish(err)
	})
	return c.watch(ctx, p), nil
}

// Adopt implements runner.Containers.
func (c containers) Adopt(ctx context.Context, _ container.Found, _ container.Spec) (runner.Running, error) {
	return c.watch(ctx, c.sl.contained()), nil
}

// watch sees the program end. It lives on when ctx ends, which is the daemon's crash.
func (c containers) watch(ctx context.Context, p *program) *running {
	r := &running{id: "memory", done: make(chan struct{}), stop: p.stop}
	c.sl.tasks.Go(func() {
		defer close(r.done)
		select {
		case <-p.run.Done():
			r.exit = exitOf(p.run.Err())
		case <-ctx.Done():
			r.exit = launch.Exit{ExitCode: -1, Reason: "nobody waits for it"}
		}
	})
	return r
}

// Remove implements runner.Containers.
func (c containers) Remove(context.Context, container.Found) error {
	c.sl.contained().kill()
	c.sl.contain(nil)
	return nil
}

// openSlots gives a new run of the daemon the weight files of the one before.
func (n *sl) openSlots(_ int64, local, committed string) (models.Slots, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.slots == nil {
		return nil, errors.New("no weight files")
	}
	if err := n.slots.Reopen(local, committed); err != nil {
		return nil, err
	}
	return n.slots, nil
}
