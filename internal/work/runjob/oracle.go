package runjob

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/work/stopfile"
)

// give puts the files into the folder of the run by which nodes of Oracle's clusters meet, unless they are there. Each host does, as the folder may be its own; all
// write the same, whole or not at all. What programs of the run have put there under these names is replaced, and nothing is followed.
func (f *runFolder) give(root *os.Root, files []framework.Found) error {
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

// epochFile is in the folder of a run that was placed anew, and says in which epoch its members have none of the words to those before.
const epochFile = ".swarm-epoch"

// clear removes what asked members of the epochs before to end, once: a host that was restarted prepares its members again, and the others may run by then.
func (f *runFolder) clear(root *os.Root) error {
	if f.epoch == 0 {
		return nil
	}
	cleared, _ := strconv.ParseUint(startOf(root, epochFile, 10), 10, 32)
	if cleared >= uint64(f.epoch) {
		return nil
	}
	for _, name := range []string{stopfile.Stop, stopfile.Fail} {
		if err := f.clearWord(root, name); err != nil {
			return fmt.Errorf("can't remove %s from folder %s in volume %s, which members before have left there: %w: remove it on its host, and run the job again", name, f.name, f.volume, err)
		}
	}
	if err := f.putFile(root, framework.Found{Name: epochFile, Data: strconv.AppendUint(nil, uint64(f.epoch), 10)}); err != nil {
		return f.fails(err)
	}
	return nil
}

// clearWord removes a file, and tells of it: whoever asked by it may have meant the members that are placed now. A folder of that name stays, as what is in it is
// a program's own, and is a word to them too.
func (f *runFolder) clearWord(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		f.log.Warn("a folder has the name of a stop file, and is not removed: it counts for the members that are placed anew too; give it another name", "folder", f.path(), "name", name, "epoch", f.epoch)
		return nil
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // another host of the run may have been first
		return err
	}
	f.log.Warn("a stop file of the epoch before was removed, as members are placed anew; to end the job, put it there again or cancel the job", "folder", f.path(), "name", name, "epoch", f.epoch)
	return nil
}

// hasFile reports whether a file is there as it is to be. What is no file keeps nobody waiting.
func hasFile(root *os.Root, x framework.Found) bool {
	info, err := root.Lstat(x.Name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	return startOf(root, x.Name, len(x.Data)+1) == string(x.Data)
}

// startOf is what a file begins with, at most so many bytes; empty: it can't be read.
func startOf(root *os.Root, name string, most int) string {
	file, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, int64(most)))
	if err != nil {
		return ""
	}
	return string(raw)
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
