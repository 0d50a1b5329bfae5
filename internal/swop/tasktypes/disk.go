package tasktypes

import (
	"context"
	"math"
	"time"

	"github.com/swarmd/swarmd/internal/space"
	"github.com/swarmd/swarmd/internal/work/volume"
)

const (
	keptFree  = 1 << 30          // bytes of a disk that no member of a job is placed for
	mostDisk  = 1 << 50          // that a host may offer
	diskLimit = 10 * time.Second // for an engine to say where its disk is
)

// Disk is how many bytes members of jobs find free on this host now, where they write: in its state directory, and in containers also where the engine
// keeps its volumes. 0: it is full, or nobody can tell.
func (t *Config) Disk(ctx context.Context) uint64 {
	dirs := []string{t.Dir}
	if !t.Process {
		at, err := t.engineDisk(ctx)
		if err != nil {
			t.Log.WarnContext(ctx, "can't see how much room the container engine has: this host offers no disk to jobs before it is started again", "err", err)
		}
		if err != nil || at == "" {
			return 0
		}
		dirs = append(dirs, at)
	}
	least := int64(math.MaxInt64)
	for _, dir := range dirs {
		free, err := space.Free(space.Existing(dir))
		if err != nil {
			return 0
		}
		least = min(least, free)
	}
	return uint64(min(max(0, least-keptFree), mostDisk)) //nolint:gosec // not below 0
}

func (t *Config) engineDisk(ctx context.Context) (dir string, err error) {
	ctx, cancel := context.WithTimeout(ctx, diskLimit)
	defer cancel()
	e, err := t.open(ctx)
	if err != nil {
		return "", err
	}
	defer e.Close()
	return volume.Disk(ctx, e)
}
