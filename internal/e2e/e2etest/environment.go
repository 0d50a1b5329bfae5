package e2etest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// unfit is the exit code of python/tools/env.sh where the system must be changed first.
const unfit = 3

// Environment is the interpreter of one that python/tools/env.sh makes. Its packages are the system's, beside its own.
func Environment(t *testing.T, kind string) string {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "python", "tools", "env.sh"), kind)
	var why strings.Builder
	cmd.Stderr = &why
	out, err := cmd.Output()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == unfit {
		t.Skipf("needs the Python environment %s: %s", kind, Last(why.String(), 3))
	}
	if err != nil {
		t.Fatalf("the Python environment %s can not be made: %v\n%s", kind, err, Last(why.String(), 30))
	}
	return strings.TrimSpace(string(out))
}
