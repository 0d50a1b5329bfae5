package component

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// startSlack is how old a container without a node name must be, if it was never started, to be a dead launcher's and not
// one that is about to start it.
const startSlack = 10 * time.Minute

// removePause is between looks whether a container is gone.
const removePause = 50 * time.Millisecond

// reconcile removes what earlier launchers of this node left: containers that were never started, or have ended. One that
// runs keeps the node's name.
func (l *launcher) reconcile(ctx context.Context) error {
	found, err := l.engine.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", engine.LabelRole+"="+l.spec.Role), filters.Arg("label", engine.LabelScope+"="+l.spec.Scope),
	)})
	if err != nil {
		return engine.Explain(fmt.Errorf("look for containers of %s: %w", l.what(), err))
	}
	for _, c := range found {
		if c.Labels[engine.LabelNode] != l.spec.Node {
			continue
		}
		if inherited, err := l.engine.Inherited(ctx, c.Labels, c.ImageID); err != nil {
			return err
		} else if inherited {
			continue
		}
		switch c.State {
		case "created", "exited", "dead":
		default:
			if l.spec.Node == "" {
				continue // as many as one likes
			}
			return &engine.Error{
				Err:  fmt.Errorf("node %s runs already in container %s", l.spec.Node, engine.ShortID(c.ID)),
				Help: "stop it first: stop-swarm, or docker rm -f " + engine.ShortID(c.ID) + "; or give this one another --name",
			}
		}
		if l.spec.Node == "" && (c.State != "created" || time.Since(time.Unix(c.Created, 0)) < startSlack) {
			continue
		}
		l.log.Info("removing what an earlier run of this node left", "container", engine.ShortID(c.ID), "state", c.State)
		if err := l.remove(ctx, c.ID, false); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a container and returns when it is gone, which somebody else may have seen to. It blocks for cleanLimit at
// most.
func (l *launcher) remove(ctx context.Context, id string, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	for {
		err := l.engine.ContainerRemove(ctx, id, container.RemoveOptions{RemoveVolumes: true, Force: force})
		switch {
		case errdefs.IsNotFound(err):
			return nil
		case err != nil && !errdefs.IsConflict(err): // it is being removed already
			return engine.Explain(fmt.Errorf("remove container %s: %w", engine.ShortID(id), err))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove container %s: %w", engine.ShortID(id), errors.Join(err, ctx.Err()))
		case <-time.After(removePause):
		}
	}
}

// labelUser is on a volume: the user whose files it holds.
const labelUser = "io.swarmd.user"

// volume makes one of our volumes unless it is there, and refuses one that is another's.
func (l *launcher) volume(ctx context.Context, name string) error {
	v, err := l.engine.VolumeInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		labels := l.spec.ourLabels()
		labels[labelUser] = l.plan.user
		if _, err := l.engine.VolumeCreate(ctx, volume.CreateOptions{Name: name, Labels: labels}); err != nil {
			return engine.Explain(fmt.Errorf("make volume %s: %w", name, err))
		}
		l.made = append(l.made, name)
		return nil
	}
	if err != nil {
		return engine.Explain(fmt.Errorf("look at volume %s: %w", name, err))
	}
	for _, label := range []string{engine.LabelRole, engine.LabelScope, engine.LabelNode} {
		if v.Labels[label] != l.spec.ourLabels()[label] {
			return &engine.Error{
				Err:  fmt.Errorf("volume %s is not the state of %s: its label %s is %q", name, l.what(), label, v.Labels[label]),
				Help: "give the node another --name, or remove it if it is not needed: docker volume rm " + name,
			}
		}
	}
	if was := v.Labels[labelUser]; was != l.plan.user {
		return &engine.Error{
			Err:  fmt.Errorf("volume %s holds files of user %s, and %s would run as user %s", name, was, l.what(), l.plan.user),
			Help: "give -u with the former user, or forget the node's state: docker volume rm " + name,
		}
	}
	return nil
}
