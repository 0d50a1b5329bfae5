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
