package runner

import (
	"testing"

	"github.com/swarmd/swarmd/internal/launch/container"
)

// TestTrainsAlone: the values are those that the Python package takes, and task files of the original have True.
func TestTrainsAlone(t *testing.T) {
	for _, tt := range []struct {
		spec Spec
		want bool
	}{
		{Spec{}, false},
		{Spec{Env: []string{"SWARM_LOOPBACK=True"}}, true},
		{Spec{Env: []string{"A=1", "SWARM_LOOPBACK= yes "}}, true},
		{Spec{Env: []string{"SWARM_LOOPBACK=1", "SWARM_LOOPBACK=False"}}, false},
		{Spec{Env: []string{"SWARM_LOOPBACK="}}, false},
		{Spec{Env: []string{"SWARM_LOOPBACK=1"}, ML: &container.Spec{}}, false},
		{Spec{ML: &container.Spec{Env: []string{"SWARM_LOOPBACK=TRUE"}}}, true},
	} {
		if got := tt.spec.trainsAlone(); got != tt.want {
			t.Errorf("%v, ML %v: got %v", tt.spec.Env, tt.spec.ML, got)
		}
	}
}
