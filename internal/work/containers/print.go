package containers

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/text"
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
		all.Go(func() error { return printed(ctx, e, c, tail, follow, emit) })
	}
	return all.Wait()
}

// printed hands out what one container prints.
func printed(ctx context.Context, e *engine.Engine, c container.Summary, tail int, follow bool, emit func(from, line string) error) error {
	logs, err := e.ContainerLogs(ctx, c.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow, Tail: strconv.Itoa(tail)})
	if errdefs.IsNotFound(err) {
		return nil // removed meanwhile
	}
	if err != nil {
		return engine.Explain(fmt.Errorf("read what container %s has printed: %w", engine.ShortID(c.ID), err))
	}
	defer logs.Close()
	// One of each: a line of the one may come within a line of the other.
	from := c.Labels[engine.LabelNode]
	said := func(line string) error { return emit(from, line) }
	out, errs := &text.Lines{Emit: said}, &text.Lines{Emit: said}
	_, err = stdcopy.StdCopy(out, errs, logs)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, out.Rest(), errs.Rest())
}
