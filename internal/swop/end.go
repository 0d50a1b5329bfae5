package swop

import (
	"context"
	"errors"

	"github.com/swarmd/swarmd/internal/work"
)

// End ends and removes all that executors find of a node's members: a host that is stopped runs nothing for others any more. It blocks
// until that is done, or ctx ends.
func End(ctx context.Context, types map[string]work.Type, swarm, node string) error {
	var errs []error
	for _, t := range types {
		found, err := t.Executor.Find(ctx)
		errs = append(errs, err)
		for _, f := range found {
			if f.Swarm == swarm && f.Node == node {
				errs = append(errs, t.Executor.Clean(ctx, f.Label))
			}
		}
	}
	return errors.Join(errs...)
}
