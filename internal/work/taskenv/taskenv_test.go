package taskenv_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work/taskenv"
)

func TestProgramsHaveNoSecretsOfTheirSWOP(t *testing.T) {
	given := []string{"PATH=/bin", "HOME=/root", "AWS_SECRET_ACCESS_KEY=x", "https_proxy=http://me:secret@proxy", "LC_ALL=C", "DOCKER_HOST=unix:///x", "SWARM_IDENTITY=y", "OMP_NUM_THREADS=2", "PATHOLOGY=z", "odd"}
	want := []string{"PATH=/bin", "HOME=/root", "LC_ALL=C", "OMP_NUM_THREADS=2"}
	if got := taskenv.Inherited(given); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if given[2] != "AWS_SECRET_ACCESS_KEY=x" {
		t.Error("the environment itself was changed")
	}
}

// TestWhatATaskMayNotSet holds that a task's variables neither choose devices nor, in a process, what code runs.
func TestWhatATaskMayNotSet(t *testing.T) {
	for name, want := range map[string][2]bool{ // in a container, in a process
		"MAX_EPOCHS": {true, true}, "MIN_PEERS": {true, true}, "OMP_NUM_THREADS": {true, true}, "KERAS_BACKEND": {true, true}, "http_proxy": {true, true}, "LDAP": {true, true},
		"PYTHONPATH": {true, false}, "PYTHONSTARTUP": {true, false}, "LD_PRELOAD": {true, false}, "PATH": {true, false}, "SWARM_BRIDGE_DIR": {true, false}, "SWARM_LOOPBACK": {true, true}, "SWARM_LOOPBACKS": {true, false}, "BASH_ENV": {true, false},
		"HOME": {true, false}, "GCONV_PATH": {true, false}, "OMP_TOOL_LIBRARIES": {true, false}, "CUDA_INJECTION64_PATH": {true, false}, "OPENSSL_CONF": {true, false},
		"NVIDIA_VISIBLE_DEVICES": {false, false}, "NVIDIA_DRIVER_CAPABILITIES": {false, false}, "CUDA_VISIBLE_DEVICES": {false, false},
		"": {false, false}, "A=LD_PRELOAD": {false, false}, "A\x00": {false, false},
	} {
		for i, process := range []bool{false, true} {
			err := taskenv.Check([]taskfile.Var{{Name: "OK", Value: "1"}, {Name: name, Value: "x"}}, process)
			if (err == nil) != want[i] || err != nil && (strings.ContainsAny(err.Error(), "\n\x00") || !strings.Contains(err.Error(), "Envvars")) {
				t.Errorf("%q, process %v: %v", name, process, err)
			}
		}
	}
	if taskenv.Check([]taskfile.Var{{Name: "OK", Value: "a\x00b"}}, false) == nil {
		t.Error("a value with NUL")
	}
}
