// Package ownimage holds which image swarmd's own containers are started from: SLs, and what looks at an engine's host.
package ownimage

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/containerd/errdefs"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Image is the one that its name stood for when it was found first, as this process started or once it was there. Whoever moves the name later
// changes nothing. It is safe for concurrent use.
type Image struct {
	name string
	log  *slog.Logger

	mu      sync.Mutex
	id      string // empty: it was not found yet
	missing bool   // that was told
}

// New returns an image of a name. It looks for none yet.
func New(name string, log *slog.Logger) *Image { return &Image{name: name, log: log} }

// find finds the image, once.
func (i *Image) find(ctx context.Context, e *engine.Engine) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.id != "" {
		return i.id, nil
	}
	found, err := e.ImageInspect(ctx, i.name)
	switch {
	case errdefs.IsNotFound(err):
		return "", &engine.Error{
			Err: fmt.Errorf("this host has no image %.200s to start SLs from", i.name), Help: "make it with make image, or start the SWOP with --image and the name of another",
			Stays: "it lacks the image that SLs are started from",
		}
	case err != nil:
		return "", engine.Explain(fmt.Errorf("look for the image of SLs: %w", err))
	}
	i.log.InfoContext(ctx, "SLs are started from this image until the SWOP ends, whatever becomes of its name", "image", i.name, "id", found.ID, "digests", found.RepoDigests)
	i.id = found.ID
	return i.id, nil
}

// FindEarly finds the image while nothing needs it yet, and says once that it can't.
func (i *Image) FindEarly(ctx context.Context, e *engine.Engine) {
	_, err := i.find(ctx, e)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil && ctx.Err() == nil && !i.missing {
		i.missing = true
		i.log.WarnContext(ctx, "no SL can be started yet", "err", err)
	}
}

// ID is the image's, if the engine still has it.
func (i *Image) ID(ctx context.Context, e *engine.Engine) (string, error) {
	id, err := i.find(ctx, e)
	if err != nil {
		return "", err
	}
	_, err = e.ImageInspect(ctx, id)
	switch {
	case errdefs.IsNotFound(err):
		return "", &engine.Error{
			Err:  fmt.Errorf("this host no longer has the image from which its SWOP starts SLs, %s (%.200s)", id, i.name),
			Help: "start the SWOP again, which takes what the name stands for then", Stays: "it no longer has the image that SLs are started from",
		}
	case err != nil:
		return "", engine.Explain(fmt.Errorf("look for the image of SLs: %w", err))
	}
	return id, nil
}
