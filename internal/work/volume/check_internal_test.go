package volume

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/volume"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// TestAVolumeThatLeadsToTheHostIsNoVolume holds that a task gets no directory of the host by a volume's name, unless the owner names it.
func TestAVolumeThatLeadsToTheHostIsNoVolume(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	for name, options := range map[string]map[string]string{
		"plain": nil, "bound": {"type": "none", "o": "bind", "device": "/etc"}, "disk": {"type": "ext4", "device": "/dev/sda1"}, "stacked": {"type": "overlay", "device": "overlay", "o": "lowerdir=/etc"},
	} {
		if _, err := e.VolumeCreate(t.Context(), volume.CreateOptions{Name: scope + "-" + name, DriverOpts: options, Labels: map[string]string{engine.LabelRole: "test", engine.LabelScope: scope}}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"plain": "", "bound": "device=/etc, o=bind, type=none", "disk": "device=/dev/sda1", "stacked": "lowerdir=/etc", "none": "there is no volume",
	} {
		name = scope + "-" + name
		switch err := Check(t.Context(), e, name, []string{"other", name + "*", "*"}); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if err := Check(t.Context(), e, name, []string{"other", name}); (err == nil) != (want != "there is no volume") {
			t.Errorf("%s, named by the owner: %v", name, err)
		}
	}
}

// TestWhatIsOutsideOfTheEnginesStorage: a driver that is not the engine's own needs no options for that.
func TestWhatIsOutsideOfTheEnginesStorage(t *testing.T) {
	if err := ownStorage(volume.Volume{Name: "v", Driver: "local-persist"}); err == nil || !strings.Contains(err.Error(), "driver local-persist") {
		t.Error(err)
	}
	if err := ownStorage(volume.Volume{Name: "v", Driver: "local", Options: map[string]string{"size": "1G"}}); err != nil {
		t.Error(err)
	}
}
