package volume

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Discard is Remove that removes the volumes too that are open, if they were made for the member whose labels these are.
func Discard(ctx context.Context, e *engine.Engine, labels map[string]string) error {
	all, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: Filtered(labels)})
	if err != nil {
		return engine.Explain(fmt.Errorf("look for containers of tasks: %w", err))
	}
	of, _ := Member(labels)
	var names []string
	for _, c := range all {
		for _, m := range c.Mounts {
			v, err := e.VolumeInspect(ctx, m.Name)
			switch {
			case errdefs.IsNotFound(err):
			case err != nil:
				return engine.Explain(fmt.Errorf("look at volume %.200s: %w", m.Name, err))
			default:
				if made, ok := Member(v.Labels); ok && made == of && v.Labels[engine.LabelScope] == labels[engine.LabelScope] {
					names = append(names, m.Name)
				}
			}
		}
	}
	if err := Remove(ctx, e, labels); err != nil {
		return err
	}
	for _, name := range names {
		if err := e.VolumeRemove(ctx, name, false); err != nil && !errdefs.IsNotFound(err) {
			return engine.Explain(fmt.Errorf("remove volume %.200s: %w", name, err))
		}
	}
	return nil
}
