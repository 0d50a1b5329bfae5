package epoch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/atomicfile"
)

// fileName is of the file in a state directory that holds a later epoch than the first.
const fileName = "swarm-epoch"

// Read returns what a state directory pins: a swarm ID, and the epoch that is followed; no swarm if there is none yet.
func Read(dir string) (Pin, error) {
	id, err := identity.PinnedSwarmID(dir)
	if err != nil || id == "" {
		return Pin{}, err
	}
	path := filepath.Join(dir, fileName)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return First(id), nil
	}
	if err != nil {
		return Pin{}, fmt.Errorf("read pinned epoch: %w", err)
	}
	p, err := Parse(strings.TrimSpace(string(raw[:min(len(raw), 256)])))
	if err != nil || p.SwarmID != id || p.Epoch < 2 {
		return Pin{}, fmt.Errorf("read pinned epoch: %s is damaged: delete it, and this node asks the SNs anew", path)
	}
	return p, nil
}

// Write pins the swarm, for good, and the epoch in a state directory. The epoch of a swarm that the directory has been made to forget
// is forgotten too.
func Write(dir string, p Pin) error {
	if err := Forget(dir); err != nil {
		return err
	}
	if err := identity.PinSwarmID(dir, p.SwarmID); err != nil {
		return err
	}
	if p.Epoch <= 1 {
		return nil
	}
	if err := atomicfile.Replace(filepath.Join(dir, fileName), []byte(p.String()+"\n"), 0o600); err != nil {
		return fmt.Errorf("pin epoch: %w", err)
	}
	return nil
}

// Forget removes the epoch of a state directory that pins no swarm: somebody has deleted the file with the swarm's ID alone.
func Forget(dir string) error {
	if id, err := identity.PinnedSwarmID(dir); err != nil || id != "" {
		return err
	}
	if err := os.Remove(filepath.Join(dir, fileName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget pinned epoch: %w", err)
	}
	return nil
}
