package volume

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Remove removes what a process that ended has left of opened volumes: containers with these labels, and images without a name.
func Remove(ctx context.Context, e *engine.Engine, labels map[string]string) error {
	if err := removeContainers(ctx, e, labels); err != nil {
		return err
	}
	return removeImages(ctx, e, labels)
}

// Discard is Remove that removes the volumes too that were not filled to their end, if they were made for the member whose labels these are.
// Their marks go last: an engine that goes away meanwhile leaves them, and what was to be removed is known to the next Discard.
func Discard(ctx context.Context, e *engine.Engine, labels map[string]string) error {
	marks, err := partial(ctx, e, labels, "")
	if err != nil {
		return err
	}
	if err := removeContainers(ctx, e, labels); err != nil {
		return err
	}
	for _, m := range marks {
		if err := discard(ctx, e, m.Labels[engine.LabelFills], labels); err != nil {
			return err
		}
	}
	return removeImages(ctx, e, labels)
}

// discard removes a volume if it was made for the member with these labels.
func discard(ctx context.Context, e *engine.Engine, name string, labels map[string]string) error {
	v, err := e.VolumeInspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		return nil
	case err != nil:
		return engine.Explain(fmt.Errorf("look at volume %.200s: %w", name, err))
	}
	of, _ := Member(labels)
	if made, ok := Member(v.Labels); !ok || made != of || v.Name != name || v.Labels[engine.LabelScope] != labels[engine.LabelScope] {
		return nil
	}
	if err := e.VolumeRemove(ctx, name, false); err != nil && !errdefs.IsNotFound(err) {
		return engine.Explain(fmt.Errorf("remove volume %.200s: %w", name, err))
	}
	return nil
}

// partial are the images that mark volumes as filled in part for the member with these labels: the volume of a name, or with an empty one all.
func partial(ctx context.Context, e *engine.Engine, labels map[string]string, name string) ([]image.Summary, error) {
	fills := engine.LabelFills
	if name != "" {
		fills += "=" + name
	}
	args := imagesOf(labels)
	args.Add("label", fills)
	marks, err := e.ImageList(ctx, image.ListOptions{Filters: args})
	if err != nil {
		return nil, engine.Explain(fmt.Errorf("look for volumes that are filled in part: %w", err))
	}
	return marks, nil
}

// imagesOf are the filters for the images by which volumes are open for what has these labels. They have no role.
func imagesOf(labels map[string]string) filters.Args {
	args := Filtered(labels)
	args.Del("label", engine.LabelRole+"="+labels[engine.LabelRole])
	args.Add("dangling", "true")
	return args
}

func removeContainers(ctx context.Context, e *engine.Engine, labels map[string]string) error {
	all, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: Filtered(labels)})
	if err != nil {
		return engine.Explain(fmt.Errorf("look for containers of tasks: %w", err))
	}
	for _, c := range all {
		if err := e.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true}); err != nil && !errdefs.IsNotFound(err) {
			return engine.Explain(fmt.Errorf("remove container %s: %w", engine.ShortID(c.ID), err))
		}
	}
	return nil
}

func removeImages(ctx context.Context, e *engine.Engine, labels map[string]string) error {
	images, err := e.ImageList(ctx, image.ListOptions{Filters: imagesOf(labels)})
	if err != nil {
		return engine.Explain(fmt.Errorf("look for images of tasks: %w", err))
	}
	for _, i := range images {
		if _, err := e.ImageRemove(ctx, i.ID, image.RemoveOptions{PruneChildren: true}); err != nil && !errdefs.IsNotFound(err) {
			return engine.Explain(fmt.Errorf("remove image %s: %w", engine.ShortID(strings.TrimPrefix(i.ID, "sha256:")), err))
		}
	}
	return nil
}
