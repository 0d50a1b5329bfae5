package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binDir holds the binaries under test, python the interpreter of the programs ("" if none imports numpy).
var binDir, python string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	binDir = os.Getenv("SWARM_BIN")
	if binDir == "" {
		dir, err := os.MkdirTemp("", "e2e-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		build := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "../../cmd/swarmd")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the binaries: %v\n%s", err, out)
			return 1
		}
		binDir = dir
	}
	var err error
	if binDir, err = filepath.Abs(binDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	python = findPython()
	return m.Run()
}

func findPython() string {
	for _, name := range []string{os.Getenv("SWARM_PYTHON"), "python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err == nil && exec.Command(path, "-c", "import numpy").Run() == nil {
			return path
		}
	}
	return ""
}

// needPython skips where no program can run.
func needPython(t *testing.T) {
	t.Helper()
	if python == "" {
		t.Skip("no python3 imports numpy: apt-get install python3-numpy, or name one with SWARM_PYTHON")
	}
}
