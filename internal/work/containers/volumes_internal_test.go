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

// TestAVolumeThatLeadsToTheHostIsNoVolume holds that a task gets no directory of the host by a volume's name, unless the owner names it.
func TestAVolumeThatLeadsToTheHostIsNoVolume(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	names := map[string]map[string]string{
		"plain": nil, "bound": {"type": "none", "o": "bind", "device": "/etc"}, "disk": {"type": "ext4", "device": "/dev/sda1"}, "stacked": {"type": "overlay", "device": "overlay", "o": "lowerdir=/etc"},
	}
	for name, options := range names {
		if _, err := e.VolumeCreate(t.Context(), volume.CreateOptions{Name: scope + "-" + name, DriverOpts: options, Labels: map[string]string{engine.LabelRole: "test", engine.LabelScope: scope}}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"plain": "", "bound": "device=/etc, o=bind, type=none", "disk": "device=/dev/sda1", "stacked": "lowerdir=/etc", "none": "there is no volume",
	} {
		name = scope + "-" + name
		run := taskfile.RunSwarm{SharedContent: []taskfile.Shared{{Src: name, Tgt: "/v", MountType: taskfile.Volume}}}
		switch err := keepVolumes(t.Context(), e, run, work.Grant{}); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if err := keepVolumes(t.Context(), e, run, work.Grant{Volumes: []string{name}}); (err == nil) != (want != "there is no volume") {
			t.Errorf("%s, named by the owner: %v", name, err)
		}
	}
	r := runner()
	keys := scope + "-plain"
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
	if err := ownStorage(volume.Volume{Name: "v", Driver: "local-persist"}); err == nil || !strings.Contains(err.Error(), "driver local-persist") {
		t.Error(err)
	}
	if err := ownStorage(volume.Volume{Name: "v", Driver: "local", Options: map[string]string{"size": "1G"}}); err != nil {
		t.Error(err)
	}
}
