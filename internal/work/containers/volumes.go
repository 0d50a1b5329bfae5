package containers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/volume"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
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

// keepVolumes refuses volumes of a task that lead out of the engine's own storage, such as to a directory of the host, unless the owner has
// named them one by one. It is asked just before containers are made, since an engine makes a volume that is not there.
func keepVolumes(ctx context.Context, e *engine.Engine, run taskfile.RunSwarm, grant work.Grant) error {
	var errs []error
	for _, name := range run.Shared(taskfile.Volume) {
		v, err := e.VolumeInspect(ctx, name)
		switch {
		case errdefs.IsNotFound(err):
			errs = append(errs, fmt.Errorf("there is no volume %.200q on this host: create it there, or assign the task that makes it first", name))
		case err != nil:
			errs = append(errs, engine.Explain(fmt.Errorf("look at volume %.200q: %w", name, err)))
		case v.Name != name: // some engines take the beginning of a name
			errs = append(errs, fmt.Errorf("there is no volume %.200q on this host, only %.200q: write its whole name", name, v.Name))
		case !slices.Contains(grant.Volumes, name):
			errs = append(errs, ownStorage(v))
		}
	}
	return errors.Join(errs...)
}

// ownStorage holds that a volume is a directory of the engine's own. Options of its driver could have it be any directory or disk of the host.
func ownStorage(v volume.Volume) error {
	var where []string
	if v.Driver != "local" {
		where = append(where, "driver "+v.Driver)
	}
	for _, k := range slices.Sorted(maps.Keys(v.Options)) {
		if k != "size" {
			where = append(where, k+"="+v.Options[k])
		}
	}
	if len(where) == 0 {
		return nil
	}
	return fmt.Errorf("volume %.200q leads out of the engine's own storage (%.200s): a task has it only if this host's policy names it, without *, under volumes in limits", v.Name, strings.Join(where, ", "))
}
