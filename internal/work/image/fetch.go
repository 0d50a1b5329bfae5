package image

import (
	"context"
	"fmt"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Fetch has the engine fetch an image by its name, without a password.
func (p *Puller) Fetch(ctx context.Context, e *engine.Engine, name string) error {
	source, err := imageNamed(name)
	if err != nil {
		return fmt.Errorf("bad image name %.200q: %w", name, err)
	}
	o := order{source: source}
	stream, err := e.ImagePull(ctx, reference.FamiliarString(source), image.PullOptions{})
	if err != nil {
		return o.unfetched("fetch image", err)
	}
	defer stream.Close()
	if err := drain(ctx, stream, progress{log: p.Log.With("image", name)}); err != nil {
		return o.unfetched("fetch image", err)
	}
	return nil
}
