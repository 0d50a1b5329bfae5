package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// keepIdentities holds that volumes with identities are there, and are none of a task's: with them its program could speak for a node.
func (r *Runner) keepIdentities(ctx context.Context, e *engine.Engine, run taskfile.RunSwarm) error {
	given := run.Shared(taskfile.Volume)
	if run.PrivateContent != "" {
		for i := range r.Profile.Nodes {
			if d := r.Profile.Nodes[i].PrivateData; strings.EqualFold(d.MountType, taskfile.Volume) {
				given = append(given, d.Src)
			}
		}
	}
	var errs []error
	for _, name := range r.Profile.IdentityVolumes() {
		_, err := e.VolumeInspect(ctx, name)
		switch {
		case slices.Contains(given, name):
			errs = append(errs, fmt.Errorf("volume %.200q has the identity of an SL of this host, with which a program could speak for it: keep them apart", name))
		case errdefs.IsNotFound(err):
			errs = append(errs, fmt.Errorf("there is no volume %.200q on this host, in which its profile has the identity of an SL: create it, or correct the profile", name))
		case err != nil:
			errs = append(errs, engine.Explain(fmt.Errorf("look at volume %.200q: %w", name, err)))
		}
	}
	return errors.Join(errs...)
}

// keepVolumes refuses volumes of a task that are not there, or that lead out of the engine's own storage and are not granted.
func keepVolumes(ctx context.Context, e *engine.Engine, run taskfile.RunSwarm, grant work.Grant) error {
	for _, name := range run.Shared(taskfile.Volume) {
		if err := volume.Check(ctx, e, name, grant.Volumes); err != nil {
			return fmt.Errorf("%s: %w", sharedContent, err)
		}
	}
	return nil
}
