package taskfile_test

import (
	"testing"

	"github.com/swarmd/swarmd/internal/taskfile"
)

func TestGPUsOfAProfile(t *testing.T) {
	amd := []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129:/dev/dri/renderD129:rw"}
	for name, tt := range map[string]struct {
		nodes []taskfile.ContainerOptions
		count int
		all   bool
	}{
		"none":          {[]taskfile.ContainerOptions{{}, {}}, 0, false},
		"named":         {[]taskfile.ContainerOptions{{GPUs: "device=3,5"}, {GPUs: `"device=GPU-1"`}}, 3, false},
		"shared":        {[]taskfile.ContainerOptions{{GPUs: "device=0"}, {GPUs: "1"}, {Devices: []string{"/dev/nvidia0", "/dev/nvidiactl"}}}, 1, false},
		"all":           {[]taskfile.ContainerOptions{{GPUs: "all"}, {GPUs: "device=1"}}, 1, true},
		"odd":           {[]taskfile.ContainerOptions{{GPUs: "-1"}}, 0, true},
		"of AMD":        {[]taskfile.ContainerOptions{{Devices: amd}}, 2, false},
		"all of AMD":    {[]taskfile.ContainerOptions{{Devices: []string{"/dev/kfd", "/dev/dri"}}}, 0, true},
		"all devices":   {[]taskfile.ContainerOptions{{Privileged: true}}, 0, true},
		"other devices": {[]taskfile.ContainerOptions{{Devices: []string{"/dev/fuse"}}}, 0, false},
	} {
		p := &taskfile.Profile{}
		for _, o := range tt.nodes {
			p.Nodes = append(p.Nodes, taskfile.Node{User: o})
		}
		if count, all := p.GPUs(); count != tt.count || all != tt.all {
			t.Errorf("%s: %d, %v", name, count, all)
		}
	}
}
