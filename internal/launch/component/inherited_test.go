package component_test

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// A container that has our labels from its image is neither removed nor taken for a SPIRE server, and no component is made of
// such an image.
func TestLabelsOfImages(t *testing.T) {
	b := newBench(t)
	build := func(role string) (image, id string) {
		image = enginetest.Labelled(t, b.engine, map[string]string{engine.LabelRole: role, engine.LabelScope: b.scope, engine.LabelNode: "sn-1"})
		c, err := b.engine.ContainerCreate(t.Context(), &container.Config{Image: image, Cmd: []string{"sleep", "100"}}, nil, nil, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		return image, c.ID
	}
	image, id := build(naming.RoleSN)
	defer b.drop(id)
	if code, err := b.run(b.shell("sn-1", "exit 3", nil)); err != nil || code != 3 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	if _, err := b.engine.ContainerInspect(t.Context(), id); err != nil {
		t.Errorf("it was removed: %v", err)
	}
	if _, err := b.run(b.shell("sn-2", "exit 0", func(s *component.Spec) { s.Image = image })); err == nil || !strings.Contains(err.Error(), engine.LabelRole) {
		t.Errorf("made a component of an image with our labels: %v", err)
	}
	_, server := build(engine.RoleSpireServer)
	defer b.drop(server)
	if err := b.engine.ContainerStart(t.Context(), server, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := b.run(b.shell("sn-3", "exit 0", func(s *component.Spec) { s.Agent = &spire.AgentConfig{NodeName: "sn-3"} }))
	if err == nil || !strings.Contains(err.Error(), "no container of a SPIRE server runs") {
		t.Errorf("took a stranger for the SPIRE server: %v", err)
	}
}

// drop removes a container.
func (b *bench) drop(id string) {
	b.t.Helper()
	if err := b.engine.ContainerRemove(b.t.Context(), id, container.RemoveOptions{Force: true}); err != nil {
		b.t.Error(err)
	}
}
