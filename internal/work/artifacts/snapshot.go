package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/work"
)

// linked has snapshots of what members have left.
const linked = "linked"

// Bounds of a snapshot.
const (
	maxDepth   = 128     // folders in each other: one file descriptor each
	maxEntries = 1 << 20 // files and folders
	atOnce     = 64      // entries of a folder that are read at a time
)

// Snapshot makes a folder that has what a member has left until now, without its group, and counts the files, and what is left out: links, and whatever else
// is no file. If a file or a folder can't be had, the rest is there, and the error is a [work.Partial]. Nobody else finds or changes what is where in it, so that whoever reads it is led to no other file of the
// host, as the member's program may try. The files themselves are the member's own, and are not copied: what is written to them goes on. It replaces
// the snapshot before.
func (s *Store) Snapshot(ctx context.Context, l work.Label) (dir string, files, left int, err error) {
	to := filepath.Join(s.Dir, linked, nameOf(l))
	if err := errors.Join(wipe(to), os.MkdirAll(to, 0o700)); err != nil {
		return "", 0, 0, err
	}
	from := filepath.Join(s.Dir, live, nameOf(l))
	groups, err := os.ReadDir(from)
	if err != nil {
		return "", 0, 0, err
	}
	groups = slices.DeleteFunc(groups, func(d fs.DirEntry) bool { return !d.IsDir() })
	switch len(groups) {
	case 0: // its program has removed it
		return to, 0, 0, nil
	case 1:
	default:
		return "", 0, 0, fmt.Errorf("the folder of its artifacts has %d groups", len(groups))
	}
	root, err := os.OpenRoot(filepath.Join(from, groups[0].Name()))
	if errors.Is(err, fs.ErrNotExist) {
		return to, 0, 0, nil
	}
	if err != nil {
		return "", 0, 0, err
	}
	defer root.Close()
	w := linking{root: root, to: to, most: maxEntries}
	if err = w.folder(ctx, ".", 0); err == nil && w.lost > 0 {
		err = &work.Partial{Words: fmt.Sprintf("its host can't read %d files or folders of it, or they are too deep, or their names are too long or no text", w.lost)}
	}
	return to, w.files, w.left, err
}

// Drop removes the snapshot of what a member has left.
func (s *Store) Drop(l work.Label) error { return wipe(filepath.Join(s.Dir, linked, nameOf(l))) }

// DropAll removes all snapshots, as a process has left them that was killed.
func (s *Store) DropAll() error { return wipe(filepath.Join(s.Dir, linked)) }

// linking makes the folders of a tree anew, and links its regular files there. What its program removes meanwhile is not there.
type linking struct {
	root *os.Root
	to   string
	most int // files and folders

	seen, files, left int
	lost              int // files and folders
}

// folder links what is in a folder, which is made. Its names may be no text, and no fs.FS knows such.
func (w *linking) folder(ctx context.Context, name string, depth int) error {
	f, err := openIn(w.root, name, syscall.O_DIRECTORY, 0o700)
	if err != nil {
		return w.skip(err)
	}
	defer f.Close()
	if name != "." {
		if err := os.Mkdir(filepath.Join(w.to, name), 0o700); err != nil {
			return fmt.Errorf("make a folder as %q is: %w", name, err)
		}
	}
	for {
		entries, err := f.ReadDir(atOnce)
		for _, d := range entries {
			if err := w.entry(ctx, filepath.Join(name, d.Name()), d, depth+1); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
			return nil
		case err != nil:
			return err
		}
	}
}

// entry links what is in a folder under a name.
func (w *linking) entry(ctx context.Context, name string, d fs.DirEntry, depth int) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if w.seen++; w.seen > w.most {
		return &work.Lasting{
			Words: fmt.Sprintf("it has left more than %d files and folders, and no more are copied: have its program pack them into archives", w.most),
			Err:   fmt.Errorf("more than %d files and folders", w.most),
		}
	}
	switch {
	case !d.IsDir() && !d.Type().IsRegular():
		w.left++
		return nil
	case len(name) > maxName || !utf8.ValidString(name) || depth > maxDepth:
		w.lost++
		return nil
	case d.IsDir():
		return w.folder(ctx, name, depth)
	}
	return w.file(name)
}

// file gives a regular file another name. It is linked as it was opened: its name may lead elsewhere by now.
func (w *linking) file(name string) error {
	f, err := openIn(w.root, name, 0, 0o600)
	if err != nil {
		return w.skip(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		w.left++
		return nil
	}
	err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, filepath.Join(w.to, name), unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return w.skip(fmt.Errorf("link %q: %w", name, err))
	}
	w.files++
	return nil
}

// skip goes on after an error that is of one file or folder, and no matter of the host.
func (w *linking) skip(err error) error {
	if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
		return nil
	}
	for _, now := range []error{syscall.ELOOP, syscall.ENOTDIR, syscall.ENXIO} { // it is another thing by now
		if errors.Is(err, now) {
			w.left++
			return nil
		}
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EMLINK) {
		w.lost++
		return nil
	}
	return err
}
