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
	"github.com/swarmd/swarmd/internal/work"
)

// Check refuses a volume that is not there, and one that leads out of the engine's own storage, such as to a directory of the host, unless
// the owner has named it: named are those volumes. It is asked before anything is prepared, and again just before a container is made, as
// volumes come and go, and an engine makes one that is not there.
func Check(ctx context.Context, e *engine.Engine, name string, named []string) error {
	return CheckFor(ctx, e, name, named, work.Label{})
}

// CheckFor is Check for a member that fills the volume, and may find it filled in part by itself.
func CheckFor(ctx context.Context, e *engine.Engine, name string, named []string, member work.Label) error {
	v, err := e.VolumeInspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		return &engine.Error{Err: fmt.Errorf("there is no volume %.200q on this host", name), Help: "assign the task that makes it first, or make it with docker volume create"}
	case err != nil:
		return engine.Explain(fmt.Errorf("look at volume %.200q: %w", name, err))
	case v.Name != name: // some engines take the beginning of a name
		return &engine.Error{Err: fmt.Errorf("there is no volume %.200q on this host, only %.200q", name, v.Name), Help: "write its whole name"}
	}
	if err := isFilled(ctx, e, v, member); err != nil {
		return err
	}
	if slices.Contains(named, name) {
		return nil
	}
	return ownStorage(v)
}

// isFilled refuses a volume that was made for a member, other than the one that asks, which has not filled it yet.
func isFilled(ctx context.Context, e *engine.Engine, v volume.Volume, asks work.Label) error {
	of, ok := Member(v.Labels)
	if !ok || of == asks {
		return nil
	}
	marks, err := partial(ctx, e, Labels(of, "", v.Labels[engine.LabelScope]), v.Name)
	if err != nil || len(marks) == 0 {
		return err
	}
	return &engine.Error{
		Err:  fmt.Errorf("volume %.200q is not filled yet, by assignment %.64q", v.Name, of.Assignment),
		Help: "assign the task again when that one has ended; if it ended before, remove the volume (docker volume rm) and assign the task that makes it again",
	}
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
