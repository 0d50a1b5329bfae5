package runjob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// removeAll removes a folder with all that is in it, also where a program has taken from folders of its own the rights that removing takes, as mode
// 0500 does. Links are not followed.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	unlock(dir)
	return os.RemoveAll(dir)
}

// unlock gives this process all rights in a folder and those beneath it, as far as they are its user's. What it can't open can't be removed, which says
// why. Names are whatever a program has chosen: an fs.FS knows none that is not UTF-8.
func unlock(dir string) {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return
	}
	defer root.Close()
	for left := []string{filepath.Base(dir)}; len(left) > 0; {
		path := left[len(left)-1]
		left = left[:len(left)-1]
		_ = root.Chmod(path, 0o700) // before it is read
		for _, name := range foldersIn(root, path) {
			left = append(left, filepath.Join(path, name))
		}
	}
}

// foldersIn are the names of the folders in one, as far as it can be read.
func foldersIn(root *os.Root, dir string) (names []string) {
	f, err := root.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1) // those that it has read
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}
