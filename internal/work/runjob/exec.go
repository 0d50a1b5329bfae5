package runjob

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/pause"
)

// execLook is between two looks whether a command has ended.
const execLook = 50 * time.Millisecond

// errOutlasts says that a command was not run, as the one before still runs.
var errOutlasts = errors.New("its ready.command has outlasted its timeout, and is run again when it has ended: have it end by itself")

// execs are the commands that run in containers beside their programs, one at a time in each. The zero value has none.
type execs struct {
	mu  sync.Mutex
	all map[string]string // the last one, by container, unless it was seen to end
}

// run runs a command in a container, whose error is that it did not end with 0. Engines end no command but with its container: one that outlasts
// its time keeps others from being run, or there would be more of them with each.
func (x *execs) run(ctx context.Context, e *engine.Engine, id string, command []string) error {
	if runs, err := x.runs(ctx, e, id); err != nil {
		return err
	} else if runs {
		return errOutlasts
	}
	made, err := e.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: command})
	if err != nil {
		return err
	}
	x.note(id, made.ID)
	if err := e.ContainerExecStart(ctx, made.ID, container.ExecStartOptions{Detach: true}); err != nil {
		return err
	}
	for {
		state, err := e.ContainerExecInspect(ctx, made.ID)
		switch {
		case err != nil:
			return err
		case !state.Running && state.ExitCode == 0:
			return nil
		case !state.Running:
			return fmt.Errorf("%s: exit code %d", strings.Join(command, " "), state.ExitCode)
		}
		if err := pause.For(ctx, execLook); err != nil {
			return err
		}
	}
}

// runs reports whether the last command of a container still runs.
func (x *execs) runs(ctx context.Context, e *engine.Engine, id string) (bool, error) {
	x.mu.Lock()
	last := x.all[id]
	x.mu.Unlock()
	if last == "" {
		return false, nil
	}
	state, err := e.ContainerExecInspect(ctx, last)
	if errdefs.IsNotFound(err) { // engines forget those that have ended
		return false, nil
	}
	return state.Running, err
}

func (x *execs) note(id, exec string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = map[string]string{}
	}
	x.all[id] = exec
}

// forget forgets a container.
func (x *execs) forget(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, id)
}
