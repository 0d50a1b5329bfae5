package membership

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/consensus"
)

// TestLastWordIsTheCause: a disk is full while an SN joins. The join learns that consensus ends before that has ended.
func TestLastWordIsTheCause(t *testing.T) {
	full := errors.New("write raft log: no space left on device")
	for name, tt := range map[string]struct{ ends, joins, want error }{
		"a full disk":  {full, fmt.Errorf("join: %w", consensus.ErrShutdown), full},
		"no cause":     {nil, consensus.ErrShutdown, consensus.ErrShutdown},
		"refused":      {nil, consensus.ErrRefused, consensus.ErrRefused},
		"another fate": {full, consensus.ErrRefused, consensus.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tasks, ctx := errgroup.WithContext(t.Context())
				ends := make(chan struct{})
				life := NewRun(func(context.Context) error {
					<-ends
					return tt.ends
				})
				tasks.Go(func() error { return life.Run(ctx) })
				tasks.Go(func() error { return life.Cause(tt.joins) })
				synctest.Wait()
				close(ends)
				if err := tasks.Wait(); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}
