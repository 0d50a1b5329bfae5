package artifacts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

// settle notes how large what is kept of a member is, or why nothing is. Where the disk has no room for the note it is measured again. The caller
// holds mu.
func (s *Store) settle(dir string) (size int64, why string, err error) {
	empty, err := isEmpty(dir)
	if err == nil && !empty {
		size, err = sizeOf(dir)
	}
	switch {
	case err != nil:
		why = fmt.Sprintf("their host can't keep them: %v", err)
	case empty:
		why = leftNothing
	case size > s.Most:
		why = fmt.Sprintf("they had %d bytes, and their host keeps %d in all (artifacts under limits in its policy)", size, s.Most)
	}
	if why != "" {
		return 0, why, s.lose(dir, why)
	}
	if info, err := os.Stat(dir); err == nil {
		defer func() { _ = os.Chtimes(dir, info.ModTime(), info.ModTime()) }() // to note it is no use of it
	}
	if err := atomicfile.ReplaceUnsynced(filepath.Join(dir, sizeFile), strconv.AppendInt(nil, size, 10), 0o600); err != nil {
		s.Log.Warn("can't note how large artifacts of a member are", "member", filepath.Base(dir), "err", err)
	}
	return size, "", nil
}

// isEmpty reports whether there is nothing in the folders of a folder.
func isEmpty(dir string) (bool, error) {
	groups, err := os.ReadDir(dir)
	for _, g := range groups {
		if !g.IsDir() {
			continue
		}
		in, err := os.ReadDir(filepath.Join(dir, g.Name()))
		if errors.Is(err, fs.ErrPermission) { // its program has closed it, which sizeOf opens
			return false, nil
		}
		if err != nil || len(in) > 0 {
			return false, err
		}
	}
	return err == nil, err
}

// sizeOf is how many bytes the files of a folder have. Folders that a program has closed are opened, whatever their names are: an fs.FS knows none that
// is not UTF-8.
func sizeOf(dir string) (all int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	var errs []error
	for left := []string{"."}; len(left) > 0; {
		name := left[len(left)-1]
		left = left[:len(left)-1]
		_ = root.Chmod(name, 0o700) // before it is read: what can't be read says so
		entries, err := entriesOf(root, name)
		if err != nil && len(errs) < maxErrors {
			errs = append(errs, err) // the others are opened all the same
		}
		for _, d := range entries {
			if d.IsDir() {
				left = append(left, filepath.Join(name, d.Name()))
			} else if info, err := d.Info(); err == nil && info.Mode().IsRegular() { // else it is gone
				all += info.Size()
			}
		}
	}
	return all, errors.Join(errs...)
}

// maxErrors bounds what is said of folders that can't be read.
const maxErrors = 3

// entriesOf are what is in a folder, as far as it can be read.
func entriesOf(root *os.Root, name string) ([]fs.DirEntry, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}
