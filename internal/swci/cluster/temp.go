package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/swarmd/swarmd/internal/filelock"
)

const (
	tempPrefix = "swarm-"
	// ownerFile is locked in a temporary folder as long as its owner lives. A lock, not a process ID: the kernel takes it
	// back whatever ends the owner, and it holds between containers that share the folder but not their processes.
	ownerFile = "owner"
	shmDir    = "/dev/shm"
)

// tempDir is a temporary folder of this process. It is private (0700) and has an owner file, so that it can be removed
// later if this process has no chance to.
type tempDir struct {
	path string
	lock *os.File // nil for one that is to be kept whatever happens
}

// newTemp makes a temporary folder below parent.
func newTemp(parent string, keep bool) (tempDir, error) {
	path, err := os.MkdirTemp(parent, tempPrefix)
	if err != nil {
		return tempDir{}, fmt.Errorf("make temporary folder: %w", err)
	}
	if keep {
		return tempDir{path: path}, nil
	}
	lock, err := own(path)
	if err != nil {
		_ = os.RemoveAll(path)
		return tempDir{}, fmt.Errorf("mark temporary folder: %w", err)
	}
	return tempDir{path, lock}, nil
}

// own locks a new folder's owner file. It gets its name when it is locked: nobody finds it before.
func own(dir string) (*os.File, error) {
	unnamed := filepath.Join(dir, ".owner")
	f, err := os.OpenFile(unnamed, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(strconv.Itoa(os.Getpid()) + "\n") // for people
	if err == nil {
		err = filelock.TakeOpen(f)
	}
	if err == nil {
		err = os.Rename(unnamed, filepath.Join(dir, ownerFile))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// remove takes the folder away.
func (t tempDir) remove() {
	_ = os.RemoveAll(t.path)
	if t.lock != nil {
		_ = t.lock.Close()
	}
}

// abandon leaves the folder to a later sweep.
func (t tempDir) abandon() {
	if t.lock != nil {
		_ = t.lock.Close()
	}
}

// sweep removes what runs of this user left behind that were killed: their folders below parents, and processes that
// outlived them. One that can't be removed is left to the next sweep.
func sweep(parents ...string) {
	for _, parent := range parents {
		dirs, err := filepath.Glob(filepath.Join(parent, tempPrefix+"*"))
		if err != nil {
			continue
		}
		for _, dir := range dirs {
			if orphan(dir) {
				killLeft(marked(markOf(dir)))
				// Its containers are known by what stands in the folder: it stays until they are gone.
				if scope := scopeOf(dir); scope == "" || cleanScope(scope) == nil {
					_ = os.RemoveAll(dir)
				}
			}
		}
	}
}

// orphan reports whether dir is a temporary folder of a run of this user whose process is gone.
func orphan(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || !mine(info) {
		return false
	}
	f, err := os.OpenFile(filepath.Join(dir, ownerFile), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() || !mine(info) {
		return false
	}
	return filelock.TakeOpen(f) == nil
}

// mine reports whether a file belongs to this process's user.
func mine(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
