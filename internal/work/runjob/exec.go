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
	"github.com/swarmd/swarmd/internal/work/procs"
)

// execLook is between two looks whether a command has ended.
const execLook = 50 * time.Millisecond

// Why a command was not asked to its end.
var (
	// errOutlasts says that it was not run, as the one before still runs, and this process can't end it.
	errOutlasts = errors.New("its ready.command has outlasted its timeout, and is run again when it has ended: have it end by itself")
	errEnded    = errors.New("its ready.command has outlasted its timeout and was ended, and is run again: raise timeout under ready, or have it end sooner")
)

// execs are the commands that run in containers beside their programs, one at a time in each. The zero value has none.
type execs struct {
	mu  sync.Mutex
	all map[string]string // the last one, by container, unless it was seen to end
}

// run runs a command in a container, whose error is that it did not end with 0. Engines end no command but with its container, so one that outlasts
// its time is killed here. Where it can't be it keeps others from being run, or there would be more of them with each.
func (x *execs) run(ctx context.Context, e *engine.Engine, id string, command []string) error {
	if last, err := x.last(ctx, e, id); err != nil {
		return err
	} else if last.Running {
		if killIn(ctx, id, last.Pid) {
			return errEnded
		}
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
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), killWithin)
			defer cancel()
			if killIn(late, id, state.Pid) {
				return errEnded
			}
			return fmt.Errorf("%w: %w", errOutlasts, err)
		}
	}
}

// last is what has become of the last command of a container; the zero value: there was none, or its engine has forgotten it.
func (x *execs) last(ctx context.Context, e *engine.Engine, id string) (container.ExecInspect, error) {
	x.mu.Lock()
	last := x.all[id]
	x.mu.Unlock()
	if last == "" {
		return container.ExecInspect{}, nil
	}
	state, err := e.ContainerExecInspect(ctx, last)
	if errdefs.IsNotFound(err) { // engines forget those that have ended
		return container.ExecInspect{}, nil
	}
	return state, err
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

// killIn kills a process of a container, with those that it has started, and reports whether it could: it is one that this process sees, as an engine
// numbers it, and not one on another machine, or this process in a container of its own; and this process may.
func killIn(ctx context.Context, id string, pid int) bool {
	inside := func(pid int) bool { return isIn(id, pid) }
	if pid <= 1 || !inside(pid) {
		return false
	}
	return procs.KillTree(ctx, pid, inside) // what it does not find ends with the container
}

// killWithin bounds the killing when the time to ask is over.
const killWithin = 5 * time.Second
