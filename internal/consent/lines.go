package consent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

// lineFile is a file of whole lines, each of which is on the disk before the next is written. It is at its name: what was written under
// none would be gone after a restart.
type lineFile struct {
	*os.File

	path  string
	size  int64 // of the whole lines
	lines int
	// doubtful says that nobody knows what the disk has of it, or that it has lost its name. It is to be written anew before anything else.
	doubtful bool
	// unsynced says that the disk may have another file at its name than there is now.
	unsynced bool

	place   func(*atomicfile.File) error // (*atomicfile.File).Replace
	syncDir func(dir string) error       // atomicfile.SyncDir
}

func newLineFile(f *os.File, path string, size int64, lines int) *lineFile {
	return &lineFile{File: f, path: path, size: size, lines: lines, place: (*atomicfile.File).Replace, syncDir: atomicfile.SyncDir}
}

// look finds out whether lines may be written: an error says why not, doubtful is whether all is to be written anew first.
func (f *lineFile) look() error {
	here, err := f.at()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.doubtful = true
		return nil
	case err != nil:
		return err
	case !here:
		return fmt.Errorf("another file is at %s: stop this host, and have the file there that it has written", f.path)
	case f.unsynced:
		if err := f.syncDir(filepath.Dir(f.path)); err != nil {
			return err
		}
		f.unsynced = false
	}
	return nil
}

// at reports whether this is the file at its name.
func (f *lineFile) at() (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(f.path)
	return err == nil && os.SameFile(mine, there), err
}

// add writes a line at the end. After an error the file is as it was, or doubtful.
func (f *lineFile) add(line []byte) error {
	_, err := f.WriteAt(line, f.size)
	if err == nil {
		if err = f.Sync(); err != nil {
			f.doubtful = true // a second try would succeed without writing what the first has lost
		}
	}
	if err != nil {
		cut := f.Truncate(f.size)
		f.doubtful = f.doubtful || cut != nil // a shorter line would leave the end of this one
		return errors.Join(err, cut)
	}
	f.size, f.lines = f.size+int64(len(line)), f.lines+1
	return nil
}

// replace has the file hold these lines alone. It reports whether it does, which it may after an error too.
func (f *lineFile) replace(all []byte, lines int) (bool, error) {
	next, err := atomicfile.Create(f.path, 0o600)
	if err != nil {
		return false, err
	}
	if _, err = next.Write(all); err == nil {
		err = f.place(next)
	}
	now := *f
	now.File, now.size, now.lines, now.doubtful, now.unsynced = next.File, int64(len(all)), lines, false, err != nil
	if here, lost := now.at(); !here {
		if err == nil && lost == nil {
			lost = errors.New("another file has its name")
		}
		return false, errors.Join(err, lost, next.Close())
	}
	_ = f.Close() // the old file has no name any more
	*f = now
	return true, err
}
