package stop

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/swarmd/swarmd/internal/registry"
)

// processes are the selected components of a role that run as processes.
func (r *runner) processes(entries []registry.Entry, role string) []item {
	var items []item
	for _, e := range entries {
		if e.Role != role || !r.cfg.Options.Wants(e.Role, e.Platform) {
			continue
		}
		items = append(items, item{"Stopping", fmt.Sprintf("%s (process %d)", named(role, e.Name), e.PID), func(ctx context.Context) (string, error) {
			return r.terminate(ctx, e)
		}})
	}
	return items
}

// terminate asks a process to end, and kills it when its time is over.
func (r *runner) terminate(ctx context.Context, e registry.Entry) (string, error) {
	p, err := e.Open()
	if errors.Is(err, registry.ErrGone) {
		return "stopped", nil // it went while the others were stopped
	}
	if err != nil {
		return "", err
	}
	defer p.Close()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return "", err
	}
	grace := r.cfg.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	within, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := p.Wait(within); err == nil {
		return "stopped", nil
	} else if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return "", err
	}
	within, cancel = context.WithTimeout(ctx, killWithin)
	defer cancel()
	if err := p.Wait(within); err != nil {
		return "", fmt.Errorf("it was killed and still runs: %w", err)
	}
	return outcomeKilled, nil
}
