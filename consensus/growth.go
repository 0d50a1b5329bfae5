package consensus

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/store"
)

// growthPause is how long a snapshot that failed is left alone.
const growthPause = 10 * time.Second

// trim makes raft cut its log whenever that has grown by so many bytes, until ctx ends.
func trim(ctx context.Context, r *replica, growth *store.Growth, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-growth.Full():
		}
		err := r.await(ctx, func() error { return r.raft.Snapshot().Error() })
		if err == nil || errors.Is(err, raft.ErrNothingNewToSnapshot) || ctx.Err() != nil {
			continue
		}
		log.Warn("could not cut the raft log", "err", err)
		timer := time.NewTimer(growthPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		growth.Again()
	}
}
