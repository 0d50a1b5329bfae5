// Package filelock has locks between processes, as files. The kernel frees a lock when its process ends, however that ends.
package filelock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked reports a lock that somebody else holds.
var ErrLocked = errors.New("in use by another process")

// Lock is a lock file that is held.
type Lock struct{ file *os.File }

// Take takes the lock file of this path, which it makes with mode 0600, or fails at once with ErrLocked. The caller closes it.
func Take(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := TakeOpen(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Lock{f}, nil
}

// TakeOpen locks an open file or directory, or fails at once with ErrLocked. The lock ends when the last descriptor of this
// opening is closed.
func TakeOpen(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// Note replaces the lock file's content, which is for people: such as the process ID of who holds it.
func (l *Lock) Note(text string) error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(text), 0)
	return err
}

// Close frees the lock at once: closing the file alone would not while a process that is just being forked holds a copy.
// A further call returns os.ErrClosed.
func (l *Lock) Close() error {
	if err := unix.Flock(int(l.file.Fd()), unix.LOCK_UN); err != nil && !errors.Is(err, unix.EBADF) {
		return errors.Join(err, l.file.Close())
	}
	return l.file.Close()
}
