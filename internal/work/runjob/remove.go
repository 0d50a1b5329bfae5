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
// why.
func unlock(dir string) {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), filepath.Base(dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() { // it was not read yet
			_ = root.Chmod(path, 0o700)
		}
		return nil
	})
}
