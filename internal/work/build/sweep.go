package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

const sweepPause = 100 * time.Millisecond

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
