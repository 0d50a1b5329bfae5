package containers

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/policy"
)

// pin is the image that SLs are started from: the one that its name stood for when it was found first, as this process started or once it was
// there. Whoever moves the name later changes nothing.
type pin struct {
	mu      sync.Mutex
	image   *policy.Image // nil: it was not found yet
	missing bool          // that was told
}

// pinned finds the image of SLs, once.
func (r *Runner) pinned(ctx context.Context, e *engine.Engine) (*policy.Image, error) {
	r.pin.mu.Lock()
	defer r.pin.mu.Unlock()
	if r.pin.image != nil {
		return r.pin.image, nil
	}
	name := r.Host.Container.ImageName(r.Env.Getenv)
	found, err := e.ImageInspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		return nil, &engine.Error{
			Err: fmt.Errorf("this host has no image %.200s to start SLs from", name), Help: "make it with make image, or start the SWOP with --image and the name of another",
		}
	case err != nil:
		return nil, engine.Explain(fmt.Errorf("look for the image of SLs: %w", err))
	}
	image, err := policy.NewImage(name, found.ID, digestsOf(found.RepoDigests)...)
	if err != nil {
		return nil, err
	}
	r.Log.InfoContext(ctx, "SLs are started from this image until the SWOP ends, whatever becomes of its name", "image", name, "id", image.ID, "digests", image.Digests)
	r.pin.image = image
	return image, nil
}

// pinEarly finds the image of SLs while nothing needs it yet, and says once that it can't.
func (r *Runner) pinEarly(ctx context.Context, e *engine.Engine) {
	_, err := r.pinned(ctx, e)
	r.pin.mu.Lock()
	defer r.pin.mu.Unlock()
	if err != nil && ctx.Err() == nil && !r.pin.missing {
		r.pin.missing = true
		r.Log.WarnContext(ctx, "no SL can be started yet", "err", err)
	}
}

// slImage is the ID of the image that SLs are started from, if the engine still has it.
func (r *Runner) slImage(ctx context.Context, e *engine.Engine) (string, error) {
	image, err := r.pinned(ctx, e)
	if err != nil {
		return "", err
	}
	_, err = e.ImageInspect(ctx, image.ID)
	switch {
	case errdefs.IsNotFound(err):
		return "", &engine.Error{
			Err:  fmt.Errorf("this host no longer has the image from which its SWOP starts SLs, %s", image),
			Help: "start the SWOP again, which takes what the name stands for then",
		}
	case err != nil:
		return "", engine.Explain(fmt.Errorf("look for the image of SLs: %w", err))
	}
	return image.ID, nil
}
