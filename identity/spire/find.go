package spire

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Find returns the path of one of SPIRE's programs, "spire-server" or "spire-agent": beside this process's own executable,
// where `make spire` puts it, else on PATH.
func Find(name string) (string, error) {
	var beside string
	if self, err := os.Executable(); err == nil {
		beside = filepath.Dir(self)
		if path, err := exec.LookPath(filepath.Join(beside, name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		return "", fmt.Errorf("find %s: %s lies in the current directory only: put the directory's full path on PATH", name, path)
	}
	if err != nil {
		return "", fmt.Errorf("find %s: it is neither beside swarmd in %s nor on PATH: run `make spire` in swarmd's source, or put SPIRE's bin directory on PATH", name, beside)
	}
	return path, nil
}
