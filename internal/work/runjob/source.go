package runjob

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// unpack writes a job's source into a folder that is made anew. Nothing is written outside of it, whatever the paths say; that a job has not too much
// was seen when it was read.
func unpack(dir string, files []jobfile.File) error {
	if err := errors.Join(removeAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
			return err
		}
		if err := putInto(root, f); err != nil {
			return err
		}
	}
	return nil
}

func putInto(root *os.Root, f jobfile.File) error {
	to, err := root.OpenFile(f.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, modeOf(f))
	if err != nil {
		return err
	}
	_, err = to.Write(f.Data)
	return errors.Join(err, to.Close())
}

func modeOf(f jobfile.File) fs.FileMode {
	if f.Exec {
		return 0o755
	}
	return 0o644
}
