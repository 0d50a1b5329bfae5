package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Labelled makes an image that differs from TestImage in its labels, as docker commit makes one of a container that has them,
// and returns its ID. It is removed when the test ends, and containers of it before.
func Labelled(t testing.TB, e *engine.Engine, labels map[string]string) string {
	t.Helper()
	made, err := e.ContainerCreate(t.Context(), &container.Config{Image: TestImage, Labels: labels}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	committed, err := e.ContainerCommit(t.Context(), made.ID, container.CommitOptions{})
	if rmErr := e.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{Force: true}); err == nil {
		err = rmErr
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := e.ImageRemove(ctx, committed.ID, image.RemoveOptions{Force: true, PruneChildren: true}); err != nil {
			t.Errorf("remove image %s: %v", committed.ID, err)
		}
	})
	return committed.ID
}
