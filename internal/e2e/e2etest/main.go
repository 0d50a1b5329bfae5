package e2etest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BinDir is the directory of the binaries under test. Main sets it.
var BinDir string

// Python is the interpreter of the programs, "" if none imports numpy. Main sets it.
var Python string

// Main runs a package's tests; its TestMain calls it. SWARM_BIN names the directory of the binaries; without it they are
// built once, with links to SPIRE's programs if `make spire` was run.
func Main(m *testing.M) int {
	BinDir = os.Getenv("SWARM_BIN")
	if BinDir == "" {
		dir, err := os.MkdirTemp("", "e2e-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if err := build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		BinDir = dir
	}
	var err error
	if BinDir, err = filepath.Abs(BinDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	Python = findPython()
	return m.Run()
}

func build(dir string) error {
	root, err := repository()
	if err != nil {
		return err
	}
	if out, err := exec.Command(filepath.Join(root, "scripts", "build"), dir).CombinedOutput(); err != nil {
		return fmt.Errorf("build the binaries: %w\n%s", err, out)
	}
	for _, name := range []string{"spire-server", "spire-agent"} {
		if path, err := filepath.EvalSymlinks(filepath.Join(root, "bin", name)); err == nil {
			if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// repository is the folder of go.mod. Tests start in their package's folder.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above the test's folder")
		}
		dir = filepath.Dir(dir)
	}
}

// Spire returns the path of one of SPIRE's programs: the one in SWARM_BIN or the repository's bin. It skips the test
// where there is none. It does not need Main.
func Spire(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("SWARM_BIN")
	if dir == "" {
		root, err := repository()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(root, "bin")
	}
	path, err := exec.LookPath(filepath.Join(dir, name))
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		t.Skipf("needs %s: run make spire", name)
	}
	return path
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

// NeedPython skips where no program can run.
func NeedPython(t *testing.T) {
	t.Helper()
	if Python == "" {
		t.Skip("no python3 imports numpy: apt-get install python3-numpy, or name one with SWARM_PYTHON")
	}
}
