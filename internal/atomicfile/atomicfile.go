// Package atomicfile writes files that are there whole or not at all, also after a crash of the machine.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Replace puts a file in place in one step: a reader finds the old content or the new, a crash leaves one of them. The file has
// this mode, whatever the umask.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, (*File).Replace)
}

// ReplaceUnsynced is Replace for what need not outlive a crash of the machine: it waits for no disk.
func ReplaceUnsynced(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, (*File).ReplaceUnsynced)
}

// New writes a file that must not exist yet, which is fs.ErrExist: of two processes that write the same one the second fails.
func New(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, (*File).New)
}

func write(path string, data []byte, mode fs.FileMode, put func(*File) error) error {
	f, err := Create(path, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode)); err == nil {
		err = put(f)
	}
	return errors.Join(err, f.Close())
}

// begun is what the names of files begin with that are not in their places yet.
const begun = ".new-"

// Sweep removes from a folder what writers have left there that were killed. Who may still write has begun within that time.
func Sweep(dir string, within time.Duration) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		info, gone := e.Info()
		if !strings.HasPrefix(e.Name(), begun) || gone != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < within {
			continue
		}
		if failed := os.Remove(filepath.Join(dir, e.Name())); !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// File is a file that is being written beside its place. Name is where it is until then.
type File struct {
	*os.File
	path   string
	placed bool
}

// Create begins a file, with this mode less the umask. One of Replace, ReplaceUnsynced and New puts it in place; Close, which the
// caller owes in any case, discards it before.
func Create(path string, mode fs.FileMode) (*File, error) {
	// A name that nobody can foresee, and made anew: in a folder of others' it must not be a link that is written through.
	part := filepath.Join(filepath.Dir(path), begun+rand.Text())
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	return &File{File: f, path: path}, nil
}

// Replace puts the file in its place, over an old one.
func (f *File) Replace() error {
	return f.place(true, os.Rename)
}

// ReplaceUnsynced is Replace for what need not outlive a crash of the machine: it waits for no disk.
func (f *File) ReplaceUnsynced() error {
	return f.place(false, os.Rename)
}

// New puts the file in its place unless there is one, which is fs.ErrExist.
func (f *File) New() error {
	return f.place(true, moveNew)
}

func (f *File) place(sync bool, put func(from, to string) error) error {
	if sync {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := put(f.Name(), f.path); err != nil {
		return err
	}
	f.placed = true
	if sync {
		return SyncDir(filepath.Dir(f.path))
	}
	return nil
}

// moveNew is a link, which fails where a rename would take away another's file; on file systems without links it is a rename that
// the file system lets fail.
func moveNew(from, to string) error {
	err := os.Link(from, to)
	if err == nil {
		return os.Remove(from)
	}
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	switch e := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE); {
	case e == nil:
		return nil
	case errors.Is(e, fs.ErrExist):
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: e}
	}
	return err
}

// Close ends the writing; a file that was not put in place is gone.
func (f *File) Close() error {
	err := f.File.Close()
	if !f.placed {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// SyncDir has the names in a directory outlive a crash of the machine, where the file system can.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) { // some file systems sync no directories
		err = nil
	}
	return errors.Join(err, d.Close())
}
