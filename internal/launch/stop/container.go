package stop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// killed is the exit code of a program that SIGKILL ended.
const killed = 137

// engineGrace is how many seconds engines wait if nobody says otherwise.
const engineGrace = 10

// ours selects what swarmd made in this scope.
func (r *runner) ours() filters.Args {
	return filters.NewArgs(filters.Arg("label", engine.LabelScope+"="+r.cfg.Scope), filters.Arg("label", engine.LabelRole))
}

// mine looks at the labels once more: a filter that an engine does not know must not make others' things ours.
func (r *runner) mine(labels map[string]string) bool {
	return labels[engine.LabelScope] == r.cfg.Scope && labels[engine.LabelRole] != "" &&
		r.cfg.Options.Wants(labels[engine.LabelRole], labels[engine.LabelPlatform])
}

// containers are the selected containers of some roles, running or not; all that are left for no roles.
func (r *runner) containers(ctx context.Context, roles ...string) []item {
	if r.cfg.Engine == nil {
		return nil
	}
	list, err := r.cfg.Engine.ContainerList(ctx, container.ListOptions{All: true, Filters: r.ours()})
	if err != nil {
		r.fail("containers", engine.Explain(err))
		return nil
	}
	var items []item
	for _, c := range list {
		role := c.Labels[engine.LabelRole]
		if !r.mine(c.Labels) || len(roles) > 0 && !slices.Contains(roles, role) || len(roles) == 0 && r.tried(c.ID) {
			continue
		}
		if inherited, err := r.cfg.Engine.Inherited(ctx, c.Labels, c.ImageID); err != nil {
			r.fail(fmt.Sprintf("container %s", engine.ShortID(c.ID)), err)
			continue
		} else if inherited {
			continue
		}
		runs := c.State == container.StateRunning || c.State == container.StatePaused || c.State == container.StateRestarting
		if !runs && r.cfg.Options.Keep {
			continue
		}
		what := fmt.Sprintf("%s (container %s)", named(role, c.Labels[engine.LabelNode]), engine.ShortID(c.ID))
		if runs {
			items = append(items, item{"Stopping", what, func(ctx context.Context) (string, error) { return r.stop(ctx, c) }})
		} else {
			items = append(items, item{"Removing", what, func(ctx context.Context) (string, error) { return "removed", r.remove(ctx, c.ID) }})
		}
	}
	return items
}

// tried reports whether a container was found before and could not be stopped.
func (r *runner) tried(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.failed, func(what string) bool { return strings.HasSuffix(what, "(container "+engine.ShortID(id)+")") })
}

// stop asks a container to end, which the engine kills when its time is over, and removes it.
func (r *runner) stop(ctx context.Context, c container.Summary) (string, error) {
	if c.State == container.StatePaused { // it would hear of nothing
		if err := r.cfg.Engine.ContainerUnpause(ctx, c.ID); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			return "", engine.Explain(err)
		}
	}
	opts := container.StopOptions{}
	if r.cfg.Grace > 0 {
		seconds := int(math.Ceil(r.cfg.Grace.Seconds()))
		opts.Timeout = &seconds
	}
	began := time.Now()
	if err := r.cfg.Engine.ContainerStop(ctx, c.ID, opts); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsNotModified(err) {
		return "", engine.Explain(err)
	}
	outcome := "stopped"
	if info, err := r.cfg.Engine.ContainerInspect(ctx, c.ID); err == nil && info.State != nil {
		if info.State.Running {
			return "", errors.New("it still runs")
		}
		// An SL ends with the exit code of its program, which it may have had to kill.
		if info.State.ExitCode == killed && !info.State.OOMKilled && time.Since(began) >= graceOf(opts, info) {
			outcome = outcomeKilled
		}
	}
	if r.cfg.Options.Keep {
		return outcome, nil
	}
	if err := r.remove(ctx, c.ID); err != nil {
		return "", fmt.Errorf("%s, not removed: %w", outcome, err)
	}
	return outcome + " and removed", nil
}

// graceOf is how long the engine lets a container end by itself.
func graceOf(opts container.StopOptions, info container.InspectResponse) time.Duration {
	seconds := engineGrace
	switch {
	case opts.Timeout != nil:
		seconds = *opts.Timeout
	case info.Config != nil && info.Config.StopTimeout != nil:
		seconds = *info.Config.StopTimeout
	}
	return time.Duration(seconds) * time.Second
}

// remove takes a container away, with the volumes that are its alone. One that removes itself is waited for.
func (r *runner) remove(ctx context.Context, id string) error {
	err := r.cfg.Engine.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress") {
		done, failed := r.cfg.Engine.ContainerWait(ctx, id, container.WaitConditionRemoved)
		select {
		case <-done:
			return nil
		case err = <-failed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return engine.Explain(err)
}

// volumes are those of the selected components.
func (r *runner) volumes(ctx context.Context) []item {
	if r.cfg.Engine == nil {
		return nil
	}
	list, err := r.cfg.Engine.VolumeList(ctx, volume.ListOptions{Filters: r.ours()})
	if err != nil {
		r.fail("volumes", engine.Explain(err))
		return nil
	}
	var items []item
	for _, v := range list.Volumes {
		if v == nil || !r.mine(v.Labels) {
			continue
		}
		holds := "state"
		if strings.HasSuffix(v.Name, "-spill") {
			holds = "weight files"
		}
		what := fmt.Sprintf("volume %s (%s of %s)", v.Name, holds, named(v.Labels[engine.LabelRole], v.Labels[engine.LabelNode]))
		items = append(items, item{"Removing", what, func(ctx context.Context) (string, error) {
			return "removed", r.gone(r.cfg.Engine.VolumeRemove(ctx, v.Name, false))
		}})
	}
	return items
}

// networks go only with everything: components of all kinds may be on them.
func (r *runner) networks(ctx context.Context) []item {
	if r.cfg.Engine == nil || !r.cfg.Options.Everything() {
		return nil
	}
	list, err := r.cfg.Engine.NetworkList(ctx, network.ListOptions{Filters: r.ours()})
	if err != nil {
		r.fail("networks", engine.Explain(err))
		return nil
	}
	var items []item
	for _, n := range list {
		if !r.mine(n.Labels) {
			continue
		}
		items = append(items, item{"Removing", "network " + n.Name, func(ctx context.Context) (string, error) {
			return "removed", r.gone(r.cfg.Engine.NetworkRemove(ctx, n.ID))
		}})
	}
	return items
}

// gone is the error of a removal: that somebody else was faster is none.
func (*runner) gone(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return engine.Explain(err)
}
