package runjob

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/framework"
)

// give puts the files into the folder of the run by which nodes of Oracle's clusters meet, unless they are there. Each host does, as the folder may be its own; all
// write the same, whole or not at all. What programs of the run have put there under these names is replaced, and nothing is followed.
func (f *runFolder) give(files []framework.Found) error {
	if len(files) == 0 {
		return nil
	}
	in, err := os.OpenRoot(f.in)
	if err != nil {
		return f.fails(err)
	}
	defer in.Close()
	root, err := in.OpenRoot(f.name)
	if err != nil {
		return f.fails(err)
	}
	defer root.Close()
	for _, x := range files {
		if hasFile(root, x) {
			continue
		}
		if err := f.putFile(root, x); err != nil {
			return f.fails(err)
		}
	}
	return nil
}

// hasFile reports whether a file is there as it is to be. What is no file keeps nobody waiting.
func hasFile(root *os.Root, x framework.Found) bool {
	info, err := root.Lstat(x.Name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	file, err := root.OpenFile(x.Name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, int64(len(x.Data)+1)))
	return err == nil && string(raw) == string(x.Data)
}

func (f *runFolder) putFile(root *os.Root, x framework.Found) error {
	next := "." + x.Name + "." + f.by
	if err := root.RemoveAll(next); err != nil {
		return err
	}
	file, err := root.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(x.Data)
	err = errors.Join(err, file.Chmod(0o644))
	if err == nil && f.uid != os.Getuid() { // of the file that was made, whatever has its name by now
		err = file.Chown(f.uid, f.gid)
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = root.Rename(next, path.Base(x.Name))
	}
	if err != nil {
		return errors.Join(err, root.RemoveAll(next))
	}
	return nil
}
