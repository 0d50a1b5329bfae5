package stop_test

import (
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// A container that has our labels from its image is somebody else's; one of ours is not spared for its image's labels.
func TestLabelsOfImagesAreNotOurs(t *testing.T) {
	e, scope := enginetest.Engine(t), enginetest.Scope(t)
	runDir(t)
	ids := map[string]string{}
	add := func(name, image string, labels map[string]string) {
		c, err := e.ContainerCreate(t.Context(), &container.Config{Image: image, Cmd: []string{"sh", "-c", polite}, Labels: labels},
			&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { remove(t, e, c.ID) })
		if err := e.ContainerStart(t.Context(), c.ID, container.StartOptions{}); err != nil {
			t.Fatal(err)
		}
		ids[name] = c.ID
	}
	sn := enginetest.Labelled(t, e, map[string]string{engine.LabelRole: naming.RoleSN, engine.LabelScope: scope, engine.LabelNode: "sn-0"})
	ml := map[string]string{engine.LabelRole: engine.RoleML, engine.LabelScope: scope, engine.LabelNode: "a", engine.LabelIncarnation: "one"}
	committed := enginetest.Labelled(t, e, ml)
	add("theirs", sn, nil)
	add("copy", committed, nil)
	ml[engine.LabelIncarnation] = "two"
	add("ours", committed, ml)
	if out, err := call(t, e, scope, time.Second); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	compare(t, e, ids, map[string]string{"theirs": "running", "copy": "running", "ours": "gone"})
}
