package container_test

import (
	"testing"

	dockercontainer "github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// What a node finds it stops and removes: not what has its labels from an image.
func TestLabelsOfImagesAreNotFound(t *testing.T) {
	l := newLab(t)
	image := enginetest.Labelled(t, l.engine, map[string]string{
		engine.LabelRole: engine.RoleML, engine.LabelNode: "sl-1", engine.LabelScope: l.scope, engine.LabelIncarnation: "l",
	})
	made, err := l.engine.ContainerCreate(t.Context(), &dockercontainer.Config{Image: image}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if found := l.find(t); len(found) != 0 {
		t.Errorf("found %+v", found)
	}
	if err := l.engine.ContainerRemove(t.Context(), made.ID, dockercontainer.RemoveOptions{}); err != nil {
		t.Error(err)
	}
}
