package daemon

import (
	"slices"
	"strings"
	"testing"
)

// TestCommandLinesHoldNoValues holds what every user of the host can read of a component: not what its program is told, nor
// the join token, which whoever is first may use.
func TestCommandLinesHoldNoValues(t *testing.T) {
	dir := hostDirs(t)
	sl := "run-sl --host-ip h --sn-ip s --model-dir model --model-program train.py -serverAddress spire -insecureBootstrap -e A=hush --ml-e B=hush"
	for name, tt := range map[string]struct {
		args string
		env  map[string]string
	}{
		"option":             {sl + " -joinToken hush", nil},
		"variable":           {sl, map[string]string{"SWARM_SPIRE_JOIN_TOKEN": "hush"}},
		"program as process": {sl + " --ml-runtime process -joinToken hush", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			s, err := translated(t, environment(map[string]string{"HOME": dir}), strings.Fields(tt.args)...)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(s.Args, func(a string) bool { return strings.Contains(a, "hush") }) {
				t.Errorf("the component's command line is %q", s.Args)
			}
			for _, want := range []string{"SWARM_SPIRE_JOIN_TOKEN=hush", "SWARM_ML_E_B=hush"} {
				if !slices.Contains(s.Vars, want) {
					t.Errorf("no %s in its environment: %q", want, s.Vars)
				}
			}
		})
	}
}
