// Package backupfile puts a backup of an SN into a file, which is there whole and checked or not at all, and reads one.
package backupfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/swarmd/swarmd/consensus/backup"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// File is a backup that was checked.
type File struct {
	*backup.Backup
	Bytes int64 // of the file
}

// Read reads a backup and checks all of it, and calls line, which may be nil, as backup.Read does.
func Read(path string, line func(ledger.Head, []byte) error) (File, error) {
	f, err := readChecked(path, line)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, &exit.Error{Status: exit.NotFound, Err: err, Hint: "swarmctl backup sn FILE makes one"}
	case err != nil:
		return f, &exit.Error{Status: exit.Failed, Err: fmt.Errorf("%s: %w", path, err), Hint: hint(err)}
	}
	return f, nil
}

func readChecked(path string, line func(ledger.Head, []byte) error) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	b, err := backup.Read(f, line)
	return File{b, info.Size()}, err
}

func hint(err error) string {
	if errors.Is(err, backup.ErrVersion) {
		return "read it with the swarmctl of the release that wrote it, or a later one"
	}
	return "take another copy, or an older backup"
}

// Write has fetch write a backup, reads it back, and gives it the name path, readable for its owner alone. A file of that name is
// replaced if it is an earlier backup of the same history, or with force.
func Write(path string, force bool, fetch func(io.Writer) error) (_ File, err error) {
	old, err := before(path, force)
	if err != nil {
		return File{}, err
	}
	f, err := atomicfile.Create(path, 0o600)
	if err != nil {
		return File{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := fetch(f); err != nil {
		return File{}, err
	}
	same := old == nil
	b, err := readChecked(f.Name(), func(head ledger.Head, _ []byte) error {
		same = same || head == old.Ledger
		return nil
	})
	if err != nil {
		return File{}, exit.New(exit.Failed, "try again, or another SN: --sn HOST:PORT", "what has come does not read: %w", err)
	}
	if old != nil {
		if err := follows(path, b.Header, *old, same); err != nil {
			return File{}, err
		}
	}
	if force || old != nil {
		return b, f.Replace()
	}
	if err := f.New(); errors.Is(err, fs.ErrExist) { // it was made meanwhile
		return File{}, exit.New(exit.Conflict, "give another name, or --force to write over it", "%s exists", path)
	} else if err != nil {
		return File{}, err
	}
	return b, nil
}

// before returns the header of the backup that a file of this name is, nil if there is nothing to keep.
func before(path string, force bool) (*backup.Header, error) {
	if force {
		return nil, nil
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, exit.New(exit.Conflict, "give another name, or --force to write over it", "%s exists and is no backup", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := backup.ReadHeader(f)
	if err != nil {
		return nil, exit.New(exit.Conflict, "give another name, or --force to write over it", "%s exists and is no backup", path)
	}
	return &h, nil
}

// follows refuses a backup in whose past the old one is not; same tells that the old one's last record is in the new one's ledger.
func follows(path string, h, old backup.Header, same bool) error {
	switch {
	case h.SwarmID != old.SwarmID:
		return exit.New(exit.Conflict, "give another name, or --force to write over it", "%s is a backup of swarm %s, this is swarm %s", path, old.SwarmID, h.SwarmID)
	case h.Ledger == old.Ledger && h.Index >= old.Index, h.Ledger != old.Ledger && (same || old.Ledger == ledger.Head{}):
		return nil
	}
	return exit.New(exit.Conflict, "keep it and give another name; --force writes over it",
		"%s has what this SN lacks: %d ledger records at index %d, the SN %d at index %d", path, old.Ledger.Length, old.Index, h.Ledger.Length, h.Index)
}
