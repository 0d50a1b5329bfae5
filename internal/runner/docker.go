package runner

import (
	"context"
	"log/slog"

	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// spillInside is where a program in a container sees the directory of spilled weight files.
const spillInside = engine.SpillDir

// docker are the containers of an engine.
type docker struct {
	*container.Launcher
	engine *engine.Engine
}

func openEngine(ctx context.Context, log *slog.Logger) (Containers, error) {
	e, err := engine.Open(ctx)
	if err != nil {
		return nil, err
	}
	return docker{container.New(e, log), e}, nil
}

// Start implements Containers.
func (d docker) Start(ctx context.Context, spec container.Spec) (Running, error) {
	p, err := d.Launcher.Start(ctx, spec)
	if err != nil {
		return nil, err // never a nil *Program in an interface
	}
	return p, nil
}

// Adopt implements Containers.
func (d docker) Adopt(ctx context.Context, f container.Found, spec container.Spec) (Running, error) {
	p, err := d.Launcher.Adopt(ctx, f, spec)
	if err != nil {
		return nil, err // the same
	}
	return p, nil
}

// Close implements Containers.
func (d docker) Close() error { return d.engine.Close() }
