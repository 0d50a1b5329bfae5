package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/work"
)

// linked has snapshots of what members have left.
const linked = "linked"

// Snapshot makes a folder that has what a member has left until now, without its group, and counts the files. Nobody else finds or changes what
// is where in it, so that whoever reads it is led to no other file of the host, as the member's program may try. The files themselves are the member's
// own, and are not copied: what is written to them goes on. It replaces the snapshot before.
func (s *Store) Snapshot(ctx context.Context, l work.Label) (dir string, files int, err error) {
	to := filepath.Join(s.Dir, linked, nameOf(l))
	if err := errors.Join(wipe(to), os.MkdirAll(filepath.Dir(to), 0o700)); err != nil {
		return "", 0, err
	}
	from := filepath.Join(s.Dir, live, nameOf(l))
	groups, err := os.ReadDir(from)
	if err != nil {
		return "", 0, err
	}
	if len(groups) != 1 {
		return "", 0, fmt.Errorf("the folder of its artifacts has %d groups", len(groups))
	}
	root, err := os.OpenRoot(filepath.Join(from, groups[0].Name()))
	if err != nil {
		return "", 0, err
	}
	defer root.Close()
	files, err = linkAll(ctx, root, to)
	return to, files, err
}

// Drop removes the snapshot of what a member has left.
func (s *Store) Drop(l work.Label) error { return wipe(filepath.Join(s.Dir, linked, nameOf(l))) }

// DropAll removes all snapshots, as a process has left them that was killed.
func (s *Store) DropAll() error { return wipe(filepath.Join(s.Dir, linked)) }

// linkAll makes the folders of a tree anew, and links its regular files there. What its program removes meanwhile is not there.
func linkAll(ctx context.Context, root *os.Root, to string) (files int, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		at := filepath.Join(to, name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != ".":
			return nil
		case err != nil:
			return err
		case d.IsDir():
			return os.Mkdir(at, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		is, err := link(root, name, at)
		if is {
			files++
		}
		return err
	})
	return files, err
}

// link gives a regular file another name, and reports whether it was there. It is linked as it was opened: its name may lead elsewhere by now.
func link(root *os.Root, name, to string) (is bool, err error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, to, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, fs.ErrNotExist) { // it has no name any more
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("link %s: %w", name, err)
	}
	return true, nil
}
