package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// privateName is the directory, within that of the weight files, for the one that is merged into. It is the daemon's alone: what
// a program could change before the round is committed would be merged by others, with equal digests.
const privateName = "private"

// mergedMode lets a program read what is committed, and write it only if it sets out to.
const mergedMode = 0o400

// publish gives the file the name under which the program reads it.
func (s *Slot) publish() error {
	s.alone.Store(false)
	return s.moveTo(s.dir, false)
}

// withdraw takes the file out of the program's reach. It is false if it can't be merged into all the same.
func (s *Slot) withdraw() bool {
	if s.moveTo(filepath.Join(s.dir, privateName), true) != nil || !s.sound() {
		return false
	}
	s.alone.Store(true)
	return true
}

// moveTo is one call of the kernel, as os.Rename is not: it is made twice in each round.
func (s *Slot) moveTo(dir string, private bool) error {
	path := filepath.Join(dir, filepath.Base(s.name))
	if err := unix.Rename(s.path, path); err != nil {
		return fmt.Errorf("move weight file: %w", &os.LinkError{Op: "rename", Old: s.path, New: path, Err: err})
	}
	s.path, s.private = path, private
	return nil
}

// sound tells whether the file is the one that was made, whole, and written by nobody else from now on: a program may have opened
// it for writing, or mapped it so, while it could reach it. The kernel grants the lease only if there is no such opening. Kernels that
// measure files (IMA) count readers too.
func (s *Slot) sound() bool {
	fd := s.file.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	if _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		return false
	}
	var there unix.Stat_t
	err := unix.Lstat(s.path, &there)
	return err == nil && there.Dev == s.device && there.Ino == s.inode && there.Size == s.size
}

// sumStep is how much of a file is summed up at a time, in bytes.
const sumStep = 1 << 20

// sum returns the SHA-256 of the whole file in hex, empty if it can't be read.
func (s *Slot) sum() string {
	h := sha256.New()
	for off := int64(0); off < s.size; off += sumStep {
		n := int(min(s.size-off, sumStep))
		lent, err := s.Lend(off, n, func(b []byte) { h.Write(b) })
		if !lent {
			_, err = io.CopyN(h, io.NewSectionReader(s, off, int64(n)), int64(n))
		}
		if err != nil {
			return ""
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// makePrivate makes the directory for the file that is merged into.
func makePrivate(dir string) error {
	path := filepath.Join(dir, privateName)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory for merging: %w", err)
	}
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory: remove it", path)
	}
	if err != nil {
		return fmt.Errorf("make directory for merging: %w", err)
	}
	return os.Chmod(path, 0o700)
}

// takeBackLocked makes the file that is merged into next private. It is replaced if a program has changed it, or may yet.
func (s *Slots) takeBackLocked(i int) {
	m := s.merged[i]
	if m.broken.Load() == nil && (m.alone.Load() || m.withdraw()) {
		return
	}
	fresh, err := s.make(m)
	if err != nil {
		why := lost(err)
		if noSpace(err) {
			why = &Error{
				ReasonNoSpace, fmt.Sprintf("no space for a weight file of %d bytes: %v", m.size, err),
				"free space; the round is tried again",
			}
		}
		m.broken.Store(why)
		return
	}
	s.merged[i] = fresh
	_ = m.free() // it is in nobody's way: a program that has it open keeps it
}

// lost says that a merged file can't be put where it belongs.
func lost(err error) *Error {
	return &Error{
		ReasonSlotLost, "no weight file can be merged into: " + err.Error(),
		"remove what lies in its way in the bridge directory, and start the training again if the round is not tried again",
	}
}

// make makes the private file that takes the place of one which a program can still change.
func (s *Slots) make(old *Slot) (*Slot, error) {
	fresh := newSlot(s.dir, s.prefix, filepath.Base(old.name), old.size)
	if err := errors.Join(makePrivate(s.dir), fresh.allocatePrivate(s.owner)); err != nil {
		return nil, err
	}
	return fresh, nil
}

// allocatePrivate makes the slot's file in the private directory.
func (s *Slot) allocatePrivate(owner *Owner) (err error) {
	s.path, s.private = filepath.Join(s.dir, privateName, filepath.Base(s.name)), true
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if s.file, err = allocate(s.path, s.size); err != nil {
		return fmt.Errorf("create weight file %s: %w", s.path, err)
	}
	if err := errors.Join(owner.show(s.path), s.file.Chmod(owner.mergedMode())); err != nil {
		return errors.Join(fmt.Errorf("let the program read weight file: %w", err), s.file.Close(), os.Remove(s.path))
	}
	return s.opened()
}

// openMerged opens a merged file of an earlier life of the daemon, wherever it was then.
func (s *Slot) openMerged() (err error) {
	s.path, s.private = filepath.Join(s.dir, privateName, filepath.Base(s.name)), true
	if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
		s.path, s.private = filepath.Join(s.dir, filepath.Base(s.name)), false
	}
	s.file, err = openSlot(s.path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := os.Chmod(s.path, 0o600); err != nil { // ours, and its mode keeps writers out
		return err
	}
	if s.file, err = openSlot(s.path); err != nil {
		return err
	}
	return s.file.Chmod(mergedMode)
}

func openSlot(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}
