package swop

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/internal/work"
)

// maxEnds bounds how many members are ended at a time.
const maxEnds = 16

// End ends and removes all that executors find of a node's members: a host that is stopped runs nothing for others any more. It blocks
// until that is done, or ctx ends.
func End(ctx context.Context, types map[string]work.Type, swarm, node string) error {
	var (
		mu    sync.Mutex
		errs  []error
		finds sync.WaitGroup
		ends  errgroup.Group
	)
	note := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	ends.SetLimit(maxEnds)
	for _, t := range types {
		if t.Executor == nil {
			continue
		}
		finds.Go(func() { // one whose engine does not answer holds no other up
			found, err := t.Executor.Find(ctx)
			note(err)
			for _, f := range found {
				if f.Swarm == swarm && f.Node == node {
					ends.Go(func() error {
						_, err := work.PartingOf(t.Executor.Clean(ctx, f.Label)) // what is to be told of it the next process asks for again
						note(err)
						return nil // the others are ended too
					})
				}
			}
		})
	}
	finds.Wait()
	_ = ends.Wait() // nothing returns one
	return errors.Join(errs...)
}
