package container

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Make makes the container of a Spec that the caller starts, follows and removes, and finds again by its labels. Errors carry a remedy (engine.Error).
func Make(ctx context.Context, l *Launcher, spec Spec, role string) (id string, err error) {
	spec, err = spec.complete()
	if err != nil {
		return "", fmt.Errorf("make a container: %w", err)
	}
	can, err := l.detect(ctx)
	if err != nil {
		return "", err
	}
	if id, err = create(ctx, l, spec, role, can); err != nil {
		return "", explainStart(err, spec)
	}
	return id, nil
}

// Begin starts a container that Make has made. One that runs already is left so.
func Begin(ctx context.Context, e *engine.Engine, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit) // who breaks it off does not know whether it runs
	defer cancel()
	if err := e.ContainerStart(ctx, id, container.StartOptions{}); err != nil && !errdefs.IsNotModified(err) {
		return engine.Explain(fmt.Errorf("start container %s: %w", engine.ShortID(id), err))
	}
	return nil
}

// stopTimeout is the grace of a Spec, which engines keep with the container.
func (s Spec) stopTimeout() *int {
	if !s.Detached {
		return nil
	}
	seconds := int(max(s.Grace, time.Second) / time.Second)
	return &seconds
}
