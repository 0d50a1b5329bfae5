package artifacts

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"
)

// maxName bounds the path of a file, in bytes.
const maxName = 900

// ErrNone says that nothing is kept.
var ErrNone = errors.New("no artifacts")

// Of is whose artifacts are meant.
type Of struct {
	Assignment string
	Epoch      uint32   // 0: the last one that is known here
	Members    []uint32 // of each of which it is said why nothing is there; those that are known are meant in any case
}

// Pack writes what members of an epoch have left as a tar archive, below GROUP/RANK, and says of a member what is not in it, and why. It is ErrNone
// where no member is known.
func (s *Store) Pack(ctx context.Context, of Of, to io.Writer, say func(from, words string) error) error {
	all, err := s.take(of)
	defer s.leave(all)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return ErrNone
	}
	w := tar.NewWriter(to)
	for _, e := range all {
		rank := strconv.FormatUint(uint64(e.member), 10)
		if e.why != "" {
			if err := say(rank, e.why); err != nil {
				return err
			}
			continue
		}
		if err := packMember(ctx, w, e.dir, rank, say); err != nil {
			return err
		}
		now := time.Now()
		_ = os.Chtimes(e.dir, now, now) // it was used
	}
	for _, member := range of.Members {
		if !slices.ContainsFunc(all, func(e entry) bool { return e.member == member }) {
			if err := say(strconv.FormatUint(uint64(member), 10), "its host knows of none: it was not started there, or that was too long ago"); err != nil {
				return err
			}
		}
	}
	return w.Close()
}

// take returns what is known of an epoch's members. What is kept of them stays until leave.
func (s *Store) take(of Of) ([]entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.forget(); err != nil {
		return nil, err
	}
	all, err := s.members(of)
	if s.read == nil {
		s.read = map[string]int{}
	}
	for _, e := range all {
		s.read[e.dir]++
	}
	return all, err
}

func (s *Store) leave(all []entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range all {
		if s.read[e.dir]--; s.read[e.dir] <= 0 {
			delete(s.read, e.dir)
		}
	}
}

// packMember writes the artifacts of one member.
func packMember(ctx context.Context, w *tar.Writer, dir, rank string, say func(from, words string) error) error {
	groups, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if !g.IsDir() {
			continue
		}
		left, err := packFolder(ctx, w, filepath.Join(dir, g.Name()), path.Join(g.Name(), rank))
		if err == nil && left > 0 {
			err = say(g.Name()+"/"+rank, fmt.Sprintf("%d links, files that are none, or with names that are too long or no text, are left out", left))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// packFolder writes the folders and regular files of a folder, and counts what it leaves out. Links are not followed.
func packFolder(ctx context.Context, w *tar.Writer, dir, under string) (left int, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		as := path.Join(under, name)
		switch {
		case len(as) > maxName || !utf8.ValidString(as):
			left++
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: as + "/", Mode: 0o755})
		case !d.Type().IsRegular():
			left++
			return nil
		}
		return packFile(w, root, name, as)
	})
	return left, err
}

// openIn opens what is in a tree to be read, without following a link. What its program has closed is given a mode.
func openIn(root *os.Root, name string, flag int, mode fs.FileMode) (*os.File, error) {
	flag |= os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	f, err := root.OpenFile(name, flag, 0)
	if errors.Is(err, fs.ErrPermission) {
		_ = root.Chmod(name, mode)
		f, err = root.OpenFile(name, flag, 0)
	}
	return f, err
}

func packFile(w *tar.Writer, root *os.Root, name, as string) error {
	f, err := openIn(root, name, 0, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s was changed meanwhile", as)
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: as, Mode: mode, Size: info.Size(), ModTime: info.ModTime()}); err != nil {
		return err
	}
	if _, err := io.CopyN(w, f, info.Size()); err != nil {
		return fmt.Errorf("%s: %w", as, err)
	}
	return nil
}
