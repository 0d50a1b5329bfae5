package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/filelock"
	"github.com/swarmd/swarmd/internal/space"
)

// makeDir makes the directory, or takes over what a dead daemon left, with or without its weight files, and returns it
// locked against a second daemon.
func makeDir(dir string, mode fs.FileMode, keepSlots bool) (*os.File, error) {
	if err := CheckDir(dir); err != nil { // before anything is made where another user says
		return nil, fmt.Errorf("make bridge directory %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make bridge directory: %w: name another one with --bridge-dir", err)
	}
	if err := checkParent(filepath.Dir(dir)); err != nil {
		return nil, fmt.Errorf("take bridge directory %s: %w", dir, err)
	}
	// A link could lead a daemon of another user's choice of directory.
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open bridge directory: %w", err)
	}
	var stat unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &stat)
	switch {
	case err != nil:
	case int(stat.Uid) != os.Geteuid():
		err = fmt.Errorf("it belongs to user %d: name another one with --bridge-dir", stat.Uid)
	case filelock.TakeOpen(f) != nil:
		err = errors.New("another daemon uses it: name another one with --bridge-dir")
	default:
		err = f.Chmod(mode)
	}
	if err == nil {
		err = removeFiles(dir, keepSlots)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take bridge directory %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// Sweep removes the weight files that a dead daemon left, which hold memory as long as they lie there, and the directory, if nobody uses
// it. Claim would do so too, but a daemon may wait for long before that, and end. Before, take is shown each merged file with what
// Slots.Merged was told of it last. Nobody vouches for either: the file may hold a part of a newer model by now, and a program may have
// written to it. Take closes nothing and keeps nothing open.
func Sweep(dir, spill string, take func(note string, model *os.File)) error {
	if !slices.ContainsFunc([]string{dir, privateDirs(dir)[0]}, there) {
		return nil
	}
	lock, err := makeDir(dir, 0o700, true)
	if err != nil {
		return err
	}
	salvage(dir, take)
	if spill != "" {
		salvage(spill, take)
	}
	err = removeSlots(dir)
	if spill != "" {
		err = errors.Join(err, removeSlots(spill))
	}
	if rmErr := os.Remove(dir); rmErr != nil && !errors.Is(rmErr, unix.ENOTEMPTY) && !errors.Is(rmErr, fs.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	return errors.Join(err, lock.Close())
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// CheckDir fails if others could put something else in the place of a bridge directory. It makes nothing.
func CheckDir(dir string) error { return checkParent(space.Existing(filepath.Dir(dir))) }

// checkParent refuses a directory whose owner could put another one in the place of ours while it is used: in
// /dev/shm everybody may have made it before us, and programs find socket and weights by path.
func checkParent(parent string) error {
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} { // the link itself, and where it leads
		info, err := look(parent)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("%s belongs to user %d, who could replace what lies in it: name another one with --bridge-dir", parent, st.Uid)
		}
		if info.IsDir() && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("%s may be written by everybody: run chmod o-w %s, or name another one with --bridge-dir", parent, parent)
		}
	}
	return nil
}

// removeFiles removes the bridge's own files only: the user may have named a directory that holds others.
func removeFiles(dir string, keepSlots bool) error {
	err := removeAll(dir, wire.SocketName)
	if !keepSlots {
		err = errors.Join(err, removeSlots(dir))
	}
	return err
}

// removeSlots removes all weight files, those of a session that is merging too.
func removeSlots(dir string) error {
	err := removeAll(dir, fileNames[:]...)
	for _, private := range privateDirs(dir) {
		info, statErr := os.Lstat(private)
		if statErr != nil {
			continue // none; where nothing can be written the removal of nothing fails too
		}
		if info.IsDir() {
			err = errors.Join(err, removeAll(private, wire.Merged0Name, wire.Merged1Name, noteName(0), noteName(1)))
		}
		if rmErr := os.Remove(private); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) && !errors.Is(rmErr, unix.ENOTEMPTY) {
			err = errors.Join(err, rmErr)
		}
	}
	return err
}

// removeAll removes what is there of these files and empty directories.
func removeAll(dir string, names ...string) error {
	var errs []error
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Claim makes the directories, or takes over those that a dead daemon left, and locks the bridge directory against a second
// daemon. With keepSlots the weight files in them stay, for OpenSlots. A program's container needs the directories before it
// is made. A second call does nothing. What was claimed and never run must be given back with Release.
func (s *Server) Claim(keepSlots bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		return nil
	}
	lock, err := makeDir(s.cfg.Dir, s.cfg.Owner.dirMode(), keepSlots)
	if err != nil {
		return err
	}
	if err := s.claimSpill(keepSlots); err != nil {
		return errors.Join(err, lock.Close())
	}
	s.lock = lock
	return nil
}

// claimSpill makes the spill directory ready for a program that sees it under another path.
func (s *Server) claimSpill(keepSlots bool) error {
	if s.cfg.SpillDir == "" {
		return nil
	}
	if s.cfg.SpillAs != "" {
		if err := makeSpill(s.cfg.SpillDir, s.cfg.Owner); err != nil {
			return err
		}
	}
	return removeFiles(s.cfg.SpillDir, keepSlots)
}

// makeSpill makes a directory for weight files whose users reach it by their mode only.
func makeSpill(dir string, owner *Owner) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, owner.dirMode())
	}
	if err != nil {
		return fmt.Errorf("make directory for weight files: %w", err)
	}
	return nil
}

// Release removes the directory and gives up its lock, if it is claimed. Run does it by itself.
func (s *Server) Release() {
	s.mu.Lock()
	lock := s.lock
	s.lock = nil
	s.mu.Unlock()
	if lock == nil {
		return
	}
	err := removeFiles(s.cfg.Dir, false)
	if rmErr := os.Remove(s.cfg.Dir); rmErr != nil && !errors.Is(rmErr, unix.ENOTEMPTY) && !errors.Is(rmErr, fs.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	if err = errors.Join(err, lock.Close()); err != nil {
		s.cfg.Log.Warn("bridge directory stays behind", "dir", s.cfg.Dir, "err", err)
	}
}
