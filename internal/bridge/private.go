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

// privateDirs are where the weight file may lie that is merged into: what a program could change before the round is committed
// would be merged by others, with equal digests. The first is beside the directory of the others, which a container has mounted, under
// a name that no node's directory has. The second, within it, keeps out users other than the daemon's.
func privateDirs(dir string) [2]string {
	return [2]string{filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".private"), filepath.Join(dir, "private")}
}

// mergedMode lets a program read what is committed, and write it only if it sets out to.
const mergedMode = 0o400

// publish gives the file the name under which the program reads it.
func (s *Slot) publish() error {
	s.alone.Store(false)
	return s.moveTo(s.dir.public, false)
}

// withdraw takes the file out of the program's reach. It is false if it can't be merged into all the same.
func (s *Slot) withdraw() bool {
	if s.moveTo(s.dir.private, true) != nil || !s.sound() {
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

// sound reports whether the file is the one that was made, whole, and written by nobody else from now on: a program may have opened
// it for writing, or mapped it so, while it could reach it. The kernel grants the lease only if there is no such opening. Kernels that
// measure files (IMA) count readers too.
func (s *Slot) sound() bool {
	var there unix.Stat_t
	return unshared(s.file) && unix.Lstat(s.path, &there) == nil && there.Dev == s.device && there.Ino == s.inode && there.Size == s.size
}

// unshared reports whether no other descriptor or mapping reads or writes the file.
func unshared(f *os.File) bool {
	for _, lease := range []int{unix.F_WRLCK, unix.F_UNLCK} {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, lease); err != nil {
			return false
		}
	}
	return true
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

// dirs are where the weight files of a session lie.
type dirs struct {
	public  string // what the program reaches
	private string // see privateDirs
	prefix  string // public as the program knows it; empty: the bridge directory
}

// makeDirs makes the directory for the file that is merged into. It lies beside dir, as a rule: a program in a container that has
// the daemon's user could change what lies within. Where that can't be, as dir is a mount or what it lies in is another user's, it
// lies within, if such a program is not to be expected.
func (at Place) makeDirs(dir, prefix string) (dirs, error) {
	d := dirs{dir, privateDirs(dir)[0], prefix}
	err := makePrivate(d.private, dir)
	if err == nil {
		return d, nil
	}
	if at.Owner.contained() {
		return d, &Error{
			ReasonSlotLost, "a program that runs as the daemon's user could change what is merged: " + err.Error(),
			"run it as another user with --ml-user, or name a directory below one of the daemon's with --bridge-dir",
		}
	}
	d.private = privateDirs(dir)[1]
	return d, makePrivate(d.private, dir)
}

// makePrivate makes a directory of the daemon's alone, from which files can be moved to dir.
func makePrivate(path, dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make directory for merging: %w", err)
		}
	}()
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d: remove it", path, st.Uid)
	}
	// Of what is not there the kernel says first whether it could be moved.
	if err := unix.Rename(filepath.Join(path, "none"), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("no file can be moved from %s to %s: %w", path, dir, err), os.Remove(path))
	}
	return f.Chmod(0o700)
}

// takeBackLocked makes the file that is merged into next private. It is replaced if a program has changed it, or may yet: one that owns the
// file may have kept a descriptor by which it opens it anew, wherever that was moved.
func (s *Slots) takeBackLocked(i int) {
	m := s.merged[i]
	if m.broken.Load() == nil && (m.alone.Load() || !s.owner.owns() && m.withdraw()) {
		return
	}
	s.dropLocked(i)
	fresh, err := s.make(m)
	if noSpace(err) && s.cutLocked(0, 1) {
		fresh, err = s.make(m)
	}
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
}

// dropLocked gives up a merged file. A program that has it open may read it until this slot is dropped again: if it could keep every file
// that it has read, it would take the memory of one more with each round.
func (s *Slots) dropLocked(i int) {
	m := s.merged[i]
	_ = s.cutLocked(i)
	if fd, err := unix.FcntlInt(m.file.Fd(), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		s.stale[i] = os.NewFile(uintptr(fd), m.name) //nolint:gosec // a descriptor
	}
	read := !unshared(m.file)
	_ = m.close()
	if !read {
		_ = s.cutLocked(i) // a descriptor by which nothing can be read holds the memory too
	}
}

// cutLocked frees the memory of files that were dropped, whoever has them mapped, and reports whether there were any.
func (s *Slots) cutLocked(list ...int) (cut bool) {
	for _, i := range list {
		if f := s.stale[i]; f != nil {
			_, _ = f.Truncate(0), f.Close()
			s.stale[i], cut = nil, true
		}
	}
	return cut
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
	fresh := newSlot(s.dir, filepath.Base(old.name), old.size)
	if err := errors.Join(makePrivate(s.dir.private, s.dir.public), fresh.allocatePrivate(s.owner)); err != nil {
		return nil, err
	}
	return fresh, nil
}

// allocatePrivate makes the slot's file in the private directory.
func (s *Slot) allocatePrivate(owner *Owner) (err error) {
	s.path, s.private = filepath.Join(s.dir.private, filepath.Base(s.name)), true
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

// openMerged opens a merged file of an earlier run of the daemon, wherever it was then.
func (s *Slot) openMerged() (err error) {
	s.path, s.private = filepath.Join(s.dir.private, filepath.Base(s.name)), true
	if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
		s.path, s.private = filepath.Join(s.dir.public, filepath.Base(s.name)), false
	}
	s.file, err = openSlot(s.path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	ours, err := openLeft(s.path) // its mode keeps writers out
	if err != nil {
		return err
	}
	defer ours.Close()
	if err := ours.Chmod(0o600); err != nil {
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
