// Package pause waits between two tries.
package pause

import (
	"context"
	"time"
)

// For blocks for d, or until ctx ends and returns why that did.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
