package containers

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/volume"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
)

// TestATasksVolumesAreLookedAt: no directory of the host comes to a program by a volume's name, unless the owner names it.
func TestATasksVolumesAreLookedAt(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	name := scope + "-bound"
	if _, err := e.VolumeCreate(t.Context(), volume.CreateOptions{
		Name: name, DriverOpts: map[string]string{"type": "none", "o": "bind", "device": "/etc"}, Labels: map[string]string{engine.LabelRole: "test", engine.LabelScope: scope},
	}); err != nil {
		t.Fatal(err)
	}
	run := taskfile.RunSwarm{SharedContent: []taskfile.Shared{{Src: name, Tgt: "/v", MountType: taskfile.Volume}}}
	if err := keepVolumes(t.Context(), e, run, work.Grant{}); err == nil || !strings.Contains(err.Error(), "SharedContent: volume") || !strings.Contains(err.Error(), "leads out of the engine's own storage") {
		t.Error(err)
	}
	if err := keepVolumes(t.Context(), e, run, work.Grant{Volumes: []string{name}}); err != nil {
		t.Error(err)
	}
}

// TestVolumesWithKeysAreKeptApart from programs.
func TestVolumesWithKeysAreKeptApart(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	keys := scope + "-plain"
	if _, err := e.VolumeCreate(t.Context(), volume.CreateOptions{Name: keys, Labels: map[string]string{engine.LabelRole: "test", engine.LabelScope: scope}}); err != nil {
		t.Fatal(err)
	}
	r := runner()
	r.Profile.Nodes[0].Identity = []taskfile.Attribute{{Kind: "KEY", MountType: taskfile.Volume, Src: keys, SubPath: "k"}}
	for want, run := range map[string]taskfile.RunSwarm{"": {}, "has the identity of an SL": {SharedContent: []taskfile.Shared{{Src: keys, Tgt: "/k", MountType: taskfile.Volume}}}} {
		if err := r.keepIdentities(t.Context(), e, run); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a volume with a key: %v, want %q", err, want)
		}
	}
	r.Profile.Nodes[0].Identity[0].Src = scope + "-none"
	if err := r.keepIdentities(t.Context(), e, taskfile.RunSwarm{}); err == nil || !strings.Contains(err.Error(), "there is no volume") {
		t.Errorf("a volume that is not there: %v", err)
	}
}
