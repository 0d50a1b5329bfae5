package detached

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/registry"
)

// killWithin is how long a process has to be gone after it was killed.
const killWithin = 10 * time.Second

// Registered are the processes of a role and scope that run, by the value that an option has in their command line.
func Registered(scope, role, option string) (map[string]registry.Entry, error) {
	entries, err := registry.List(scope)
	if err != nil {
		return nil, err
	}
	all := map[string]registry.Entry{}
	for _, e := range entries {
		if e.Role == role {
			all[e.Option(option)] = e
		}
	}
	return all, nil
}

// Terminate ends a process, and kills it after the grace. One that is gone is no error. If ctx ends before it is left to end by itself: one that was
// killed could not see to what it has started.
func Terminate(ctx context.Context, e registry.Entry, grace time.Duration) error {
	p, err := e.Open()
	if errors.Is(err, registry.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.Close()
	for _, step := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, killWithin}} {
		if err := p.Signal(step.signal); err != nil {
			return err
		}
		waitCtx, cancel := context.WithTimeout(ctx, step.within)
		err = p.Wait(waitCtx)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s (process %d) was asked to end, and has not yet: %w", e.Name, e.PID, ctx.Err())
		}
	}
	return fmt.Errorf("%s (process %d) does not end: %w", e.Name, e.PID, err)
}
