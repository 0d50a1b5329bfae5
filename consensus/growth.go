package consensus

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// growthPause is how long a snapshot that failed is left alone.
const growthPause = 10 * time.Second

// growthLoop has raft cut its log when it has grown by so many bytes.
func (g *Group) growthLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.growth.Full():
		}
		err := g.await(ctx, func() error { return g.raft.Snapshot().Error() })
		if err == nil || errors.Is(err, raft.ErrNothingNewToSnapshot) || ctx.Err() != nil {
			continue
		}
		g.log.Warn("could not cut the raft log", "err", err)
		timer := time.NewTimer(growthPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		g.growth.Again()
	}
}
