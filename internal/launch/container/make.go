package container

import (
	"context"
	"errors"
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
	id, err = create(ctx, l, spec, role, can)
	if err != nil && can.init && lacksInit(err) {
		id, err = create(ctx, l, spec, role, withoutInit(l, can, err))
	}
	if err != nil {
		return "", explainStart(err, spec)
	}
	return id, nil
}

// ErrNoInit says that an engine can't start a container with an init process, which some tell only then: it is to be made again, with Spec.NoInit.
var ErrNoInit = errors.New("the engine has no init process for containers")

// Begin starts a container that Make has made. One that runs already is left so.
func Begin(ctx context.Context, e *engine.Engine, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit) // who breaks it off does not know whether it runs
	defer cancel()
	err := e.ContainerStart(ctx, id, container.StartOptions{})
	switch {
	case err == nil || errdefs.IsNotModified(err):
		return nil
	case lacksInit(err):
		return fmt.Errorf("start container %s: %w: %w", engine.ShortID(id), ErrNoInit, err)
	}
	return engine.Explain(fmt.Errorf("start container %s: %w", engine.ShortID(id), err))
}

// stopTimeout is the grace of a Spec, which engines keep with the container.
func (s Spec) stopTimeout() *int {
	if !s.Detached {
		return nil
	}
	seconds := int(max(s.Grace, time.Second) / time.Second)
	return &seconds
}
