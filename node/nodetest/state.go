package nodetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// stateDir is the state directory of an SL's newest run.
type stateDir struct {
	path   string
	starts int
}

// next gives the next run of a daemon its directory: that of before if it was kept, else one with nothing but the node's key.
func (d *stateDir) next(id nodeID, kept bool) error {
	if d.starts++; d.starts == 1 {
		d.path = filepath.Join(id.dir, "state")
		return nil
	}
	if kept {
		return nil // keep made it
	}
	old := d.path
	d.path = filepath.Join(id.dir, fmt.Sprintf("state-%d", d.starts))
	if err := os.Mkdir(d.path, 0o700); err != nil {
		return err
	}
	return copyFile(filepath.Join(old, "node.key"), filepath.Join(d.path, "node.key"))
}

// keep copies the directory as it is now for the next run: what the old one writes from now on is lost, as in a crash.
func (d *stateDir) keep(id nodeID) error {
	old := d.path
	d.path = filepath.Join(id.dir, fmt.Sprintf("kept-%d", d.starts))
	return filepath.WalkDir(old, func(path string, e os.DirEntry, err error) error {
		to := filepath.Join(d.path, path[len(old):])
		switch {
		case err == nil && e.IsDir():
			err = os.Mkdir(to, 0o700)
		case err == nil && e.Type().IsRegular():
			err = copyFile(path, to)
		}
		if errors.Is(err, os.ErrNotExist) { // a file that was about to replace another
			return nil
		}
		return err
	})
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}
