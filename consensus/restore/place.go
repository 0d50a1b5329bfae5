package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/swarmd/swarmd/consensus/recovery"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/filelock"
)

const (
	// partName is the folder in a state directory in which it is made; wholeName is the same when only moving it up is left. A state
	// directory may be a mount point, so it can't be made beside and renamed.
	partName  = "restore.part"
	wholeName = "restore.whole"
	lockName  = "lock" // of every state directory
)

// place is a state directory that is being made.
type place struct {
	dir, part string
	whole     bool // it was made, and only moving it up is left
	lock      *filelock.Lock
	made      bool // the directory is new
}

// openPlace takes the directory, which must be empty but for what an interrupted command has left.
func openPlace(dir string) (*place, error) {
	_, err := os.Stat(dir)
	p := &place{dir: dir, part: filepath.Join(dir, partName), made: errors.Is(err, fs.ErrNotExist)}
	if err := identity.PrivateDir(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(filepath.Join(dir, wholeName))
	p.whole = err == nil
	for _, e := range entries {
		switch e.Name() {
		case partName, wholeName, lockName, "lost+found":
		default:
			if !p.whole {
				return nil, fmt.Errorf("state directory %s %w: name a new one, or move it away", dir, ErrNotEmpty)
			}
		}
	}
	if p.lock, err = filelock.Take(filepath.Join(dir, lockName)); err != nil {
		return nil, fmt.Errorf("state directory %s: %w", dir, err)
	}
	return p, nil
}

// close gives the directory back, and removes one that is as new.
func (p *place) close() {
	_ = p.lock.Close() // it is only a lock
	if entries, err := os.ReadDir(p.dir); err == nil && len(entries) == 1 && entries[0].Name() == lockName && p.made {
		_ = os.Remove(filepath.Join(p.dir, lockName))
		_ = os.Remove(p.dir)
	}
}

// begin makes the folder in which the directory is made, without what an interrupted command left.
func (p *place) begin() error {
	if err := p.abandon(); err != nil {
		return err
	}
	return os.Mkdir(p.part, 0o700)
}

func (p *place) abandon() error { return os.RemoveAll(p.part) }

// finish moves what was made to where it belongs.
func (p *place) finish() error {
	whole := filepath.Join(p.dir, wholeName)
	if err := errors.Join(atomicfile.SyncDir(p.part), os.Rename(p.part, whole), atomicfile.SyncDir(p.dir)); err != nil {
		return fmt.Errorf("end restoring: %w", err)
	}
	return p.moveUp(whole)
}

func (p *place) moveUp(whole string) error {
	entries, err := os.ReadDir(whole)
	if err != nil {
		return err
	}
	for _, e := range entries {
		from := filepath.Join(whole, e.Name())
		if e.Name() == lockName { // the one above is held
			err = os.Remove(from)
		} else {
			err = os.Rename(from, filepath.Join(p.dir, e.Name()))
		}
		if err != nil {
			return fmt.Errorf("end restoring: %w", err)
		}
	}
	return errors.Join(os.Remove(whole), atomicfile.SyncDir(p.dir))
}

// finished ends what an interrupted command left, which was whole, and says what it is.
func (p *place) finished(cfg Config) (Result, error) {
	if err := p.moveUp(filepath.Join(p.dir, wholeName)); err != nil {
		return Result{}, err
	}
	_ = p.lock.Close() // it is only a lock, and Found takes it
	found, err := recovery.Found(context.Background(), recovery.Config{Dir: p.dir, Source: cfg.Source, Log: cfg.Log, Host: cfg.Host, P2PPort: cfg.P2PPort})
	return Result{Result: found}, err
}

// Check returns why a node must not start from a state directory: one is being made there, or was interrupted.
func Check(dir string) error {
	for _, name := range []string{partName, wholeName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("swarmd restore-sn was interrupted in %s: run it again with the same options, then start this node", dir)
		}
	}
	return nil
}
