package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrLocked reports a lock that somebody else holds.
var ErrLocked = errors.New("in use by another process")

// Lock is a lock file that is held. It is free when its process ends, however that ends.
type Lock struct{ file *os.File }

// TakeLock takes the lock file of this path, which it makes with mode 0600, or fails at once with ErrLocked. The caller
// closes it.
func TakeLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return &Lock{f}, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("lock %s: %w", path, ErrLocked)
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// Close frees the lock at once: closing the file alone would not while a process that is just being forked holds a copy.
// A further call returns os.ErrClosed.
func (l *Lock) Close() error {
	if err := unix.Flock(int(l.file.Fd()), unix.LOCK_UN); err != nil && !errors.Is(err, unix.EBADF) {
		return errors.Join(err, l.file.Close())
	}
	return l.file.Close()
}

// PrivateDir makes dir with mode 0700, or checks that an existing one is ours and closed to others.
func PrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("check state directory: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("state directory %s belongs to uid %d, not to uid %d that runs this: run it as that user (sudo -u '#%d' …), or use another --state-dir", dir, st.Uid, os.Geteuid(), st.Uid)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("state directory %s has mode %04o: others may read it; run chmod 0700 %s", dir, info.Mode().Perm(), dir)
	}
	return nil
}

// WriteNewFile writes a file whole or not at all and never over an existing one, which is fs.ErrExist: a rename would let
// the second of two processes take the first one's file away, a link fails instead.
func WriteNewFile(path string, data []byte, mode fs.FileMode) error {
	return place(path, data, mode, os.Link)
}

// ReplaceFile puts a file in place in one step: a reader finds the old content or the new, a crash leaves one of them.
func ReplaceFile(path string, data []byte, mode fs.FileMode) error {
	return place(path, data, mode, os.Rename)
}

// place writes a file beside its place and lets put bring it there.
func place(path string, data []byte, mode fs.FileMode, put func(from, to string) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := put(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
