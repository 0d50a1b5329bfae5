package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/space"
)

const (
	reserve    = 1 << 30 // bytes of the engine's disk that stay free
	spacePause = 200 * time.Millisecond
	sweepPause = 100 * time.Millisecond
)

// mark is the label of all that this host's builds make on the way. It is the same for all of them, so that engines find the steps again
// that are done; only one is going on.
func (b *Builder) mark() string {
	sum := sha256.Sum256([]byte(b.cfg.Scope + "\x00" + b.cfg.Node))
	return engine.LabelBuild + "=" + hex.EncodeToString(sum[:8])
}

// sweep removes containers and images that are left of builds, until none is: engines go on for a moment after a build was ended.
func (b *Builder) sweep(ctx context.Context, e *engine.Engine) error {
	for {
		left, err := b.sweepOnce(ctx, e)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove what is left of a build: %d containers and images are still there: %w", left, ctx.Err())
		case <-time.After(sweepPause):
		}
	}
}

// sweepOnce returns how much there was.
func (b *Builder) sweepOnce(ctx context.Context, e *engine.Engine) (int, error) {
	mine := filters.NewArgs(filters.Arg("label", b.mark()))
	containers, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: mine})
	if err != nil {
		return 0, engine.Explain(fmt.Errorf("look for containers of builds: %w", err))
	}
	for _, c := range containers {
		err := e.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) { // a conflict: the engine removes it
			return 0, engine.Explain(fmt.Errorf("remove container %s of a build: %w", engine.ShortID(c.ID), err))
		}
	}
	mine.Add("dangling", "true")
	images, err := e.ImageList(ctx, image.ListOptions{Filters: mine})
	if err != nil {
		return 0, engine.Explain(fmt.Errorf("look for images of builds: %w", err))
	}
	left := len(containers)
	for _, i := range images {
		_, err := e.ImageRemove(ctx, i.ID, image.RemoveOptions{Force: true, PruneChildren: true})
		if errdefs.IsConflict(err) && len(containers) == 0 {
			continue // somebody else's container needs it
		}
		left++
		if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			return 0, engine.Explain(fmt.Errorf("remove image %s of a build: %w", engine.ShortID(strings.TrimPrefix(i.ID, "sha256:")), err))
		}
	}
	return left, nil
}

// room refuses a build for which the engine's disk has no room.
func (b *Builder) room(ctx context.Context, e *engine.Engine) error {
	dir, err := disk(ctx, e)
	if err != nil || dir == "" {
		return err
	}
	free, err := b.free(dir)
	if err != nil || free < 0 || free >= reserve {
		return nil //nolint:nilerr // what can't be told refuses nothing: the engine says when its disk is full
	}
	return &engine.Error{
		Err:  fmt.Errorf("the engine's disk is full: %d MiB are free in %s, and builds leave %d MiB", free>>20, dir, reserve>>20),
		Help: "free some space: docker system df shows what uses it, docker system prune removes what nobody does",
	}
}

// disk is a directory on the engine's disk; empty: it is another machine's. In a container that is the root, which the engine keeps.
func disk(ctx context.Context, e *engine.Engine) (string, error) {
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

func freeBytes(dir string) (int64, error) { return space.Free(dir) }

// watch ends a build, by its cancel function, when it leaves too little room.
func (b *Builder) watch(ctx context.Context, e *engine.Engine, cancel context.CancelCauseFunc) {
	ticks := time.NewTicker(spacePause)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if err := b.room(ctx, e); err != nil && ctx.Err() == nil {
				cancel(err)
				return
			}
		}
	}
}
