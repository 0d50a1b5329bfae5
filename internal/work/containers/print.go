package containers

import (
	"context"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
)

var _ work.Printer = (*Runner)(nil)

// Print implements work.Printer, by the engine's logs. An SL prints what its program does.
func (r *Runner) Print(ctx context.Context, l work.Label, tail int, follow bool, emit func(from, line string) error) error {
	e, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	found, err := r.list(ctx, e)
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	if !follow {
		all.SetLimit(1) // one after the other
	}
	for _, c := range found[l] {
		if c.State == container.StateCreated {
			continue
		}
		all.Go(func() error {
			return e.Printed(ctx, c.ID, tail, follow, func(line string) error { return emit(c.Labels[engine.LabelNode], line) })
		})
	}
	return all.Wait()
}
