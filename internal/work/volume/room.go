package volume

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/space"
)

const (
	reserve    = 1 << 30 // bytes of the engine's disk that stay free
	spacePause = 200 * time.Millisecond
)

// Room sees that what others have made leaves the engine's disk some room.
type Room struct {
	// Free returns how many bytes are free where a directory lies; below 0: nobody knows.
	Free func(dir string) (int64, error)
	// Dir is another directory of the host in which there is to be room too; empty: none.
	Dir string
}

// Check refuses work for which there is no room.
func (r Room) Check(ctx context.Context, e *engine.Engine) error {
	dir, err := Disk(ctx, e)
	if err != nil {
		return err
	}
	return r.full(dir)
}

// full is an error when there is no room on the engine's disk or on that of r.Dir.
func (r Room) full(engines string) error {
	for _, dir := range []string{engines, r.Dir} {
		if dir == "" {
			continue
		}
		free, err := r.Free(space.Existing(dir))
		if err != nil || free < 0 || free >= reserve {
			continue // what can't be told refuses nothing: who writes is told when a disk is full
		}
		return &engine.Error{
			Err:  fmt.Errorf("the disk is full: %d MiB are free in %s, and %d MiB are to stay free", free>>20, dir, reserve>>20),
			Help: "free some space: docker system df shows what uses it, docker system prune removes what nobody does",
		}
	}
	return nil
}

// Watch ends work, by its cancel function, when it leaves too little room. It returns when ctx ends.
func (r Room) Watch(ctx context.Context, e *engine.Engine, cancel context.CancelCauseFunc) {
	dir, err := Disk(ctx, e)
	if err != nil {
		dir = "" // an engine that does not answer ends no work: the work itself will
	}
	ticks := time.NewTicker(spacePause)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if err := r.full(dir); err != nil {
				cancel(err)
				return
			}
		}
	}
}

// Disk is a directory on the engine's disk; empty: it is another machine's. In a container that is the root, which the engine keeps.
func Disk(ctx context.Context, e *engine.Engine) (string, error) {
	if !strings.HasPrefix(e.DaemonHost(), "unix://") {
		return "", nil
	}
	info, err := e.Info(ctx)
	if err != nil {
		return "", engine.Explain(fmt.Errorf("look at the engine: %w", err))
	}
	if _, err := os.Stat(info.DockerRootDir); err == nil {
		return info.DockerRootDir, nil
	}
	return "/", nil
}
