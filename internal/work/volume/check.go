package volume

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/volume"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Check refuses a volume that is not there, and one that leads out of the engine's own storage, such as to a directory of the host, unless
// the owner has named it: named are those volumes. It is asked before anything is prepared, and again just before a container is made, as
// volumes come and go, and an engine makes one that is not there.
func Check(ctx context.Context, e *engine.Engine, name string, named []string) error {
	v, err := e.VolumeInspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		return &engine.Error{Err: fmt.Errorf("there is no volume %.200q on this host", name), Help: "assign the task that makes it first, or make it with docker volume create"}
	case err != nil:
		return engine.Explain(fmt.Errorf("look at volume %.200q: %w", name, err))
	case v.Name != name: // some engines take the beginning of a name
		return &engine.Error{Err: fmt.Errorf("there is no volume %.200q on this host, only %.200q", name, v.Name), Help: "write its whole name"}
	case slices.Contains(named, name):
		return nil
	}
	return ownStorage(v)
}

// ownStorage holds that a volume is a directory of the engine's own. Options of its driver could have it be any directory or disk of the host,
// and so could another driver without options.
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
	return &engine.Error{
		Err:  fmt.Errorf("volume %.200q leads out of the engine's own storage (%.200s)", v.Name, strings.Join(where, ", ")),
		Help: "have this host's policy name it, without *, under volumes in limits, or take another volume",
	}
}
