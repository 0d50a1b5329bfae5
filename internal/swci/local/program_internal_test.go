package local

import (
	"strings"
	"testing"
)

func TestRemedyOfPythonsErrors(t *testing.T) {
	process, docker := &run{cfg: &RunConfig{Python: "/usr/bin/python3"}}, &run{cfg: &RunConfig{Runtime: "docker", Image: "mine"}}
	for _, tt := range []struct {
		run        *run
		line, want string
	}{
		{process, "ModuleNotFoundError: No module named 'x'", "the programs' Python is /usr/bin/python3"},
		{docker, "ModuleNotFoundError: No module named 'x'", "the programs' image is mine"},
		{process, "EOFError: EOF when reading a line", "no terminal, so input() has nothing to read"},
	} {
		if got := tt.run.remedy(tt.line); !strings.Contains(got, tt.want) {
			t.Errorf("remedy(%q) = %q, want %q in it", tt.line, got, tt.want)
		}
	}
	if got := process.remedy("ValueError: ModuleNotFoundError: no"); got != "" {
		t.Errorf("another error has the remedy %q", got)
	}
}
