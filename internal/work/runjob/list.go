package runjob

import (
	"context"
	"fmt"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// boxes are containers of members.
type boxes map[work.Label]container.Summary

// list returns the containers of this host's members: of one that has none yet the one that holds its address.
func (c *Containers) list(ctx context.Context, e *engine.Engine) (boxes, error) {
	found, holders, err := both(ctx, c, e)
	for l, x := range holders {
		if _, is := found[l]; !is {
			found[l] = x
		}
	}
	return found, err
}

// both are the containers of this host's members, and those that hold addresses for members.
func both(ctx context.Context, c *Containers, e *engine.Engine) (found, holders boxes, err error) {
	all, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", engine.LabelRole+"="+engine.RoleMember), filters.Arg("label", engine.LabelScope+"="+c.Scope), filters.Arg("label", engine.LabelHost+"="+c.Node),
	)})
	if err != nil {
		return nil, nil, engine.Explain(fmt.Errorf("look for containers of jobs: %w", err))
	}
	found, holders = boxes{}, boxes{}
	for _, x := range all {
		inherited, err := e.Inherited(ctx, x.Labels, x.ImageID)
		if err != nil {
			return nil, nil, err
		}
		switch l, ok := volume.Member(x.Labels); {
		case !ok || inherited:
		case holds(x):
			holders[l] = x
		default:
			found[l] = x
		}
	}
	return found, holders, nil
}

// holds reports whether a container has no program, and holds the address of a member.
func holds(x container.Summary) bool { return x.Labels[engine.LabelHolds] != "" }
