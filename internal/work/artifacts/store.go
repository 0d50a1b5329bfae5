// Package artifacts keeps what members of jobs leave in a folder, also of those that failed, until somebody has fetched it or it is too old or too much.
package artifacts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/work"
)

// How much is kept, and for how long, where the host's owner has not said it.
const (
	Most = 10 << 30 // bytes
	Age  = 7 * 24 * time.Hour
)

// Store has the folders of members that run, and keeps those of members that have ended. It is safe for concurrent use.
type Store struct {
	Dir  string
	Most int64 // bytes of all that is kept
	Age  time.Duration
	Log  *slog.Logger

	mu   sync.Mutex
	read map[string]int // how often folders are read now, which stay meanwhile
}

// The files of a store. Of each member there is a folder, with one for its group in it; of one that was kept also how large it is, or why
// there is nothing any more.
const (
	live      = "live"
	kept      = "kept"
	sizeFile  = "size.txt" // no group has a dot in its name
	whyFile   = "why.txt"
	maxNotes  = 1024 // members of which only that is known
	noteTimes = 4    // as long as what is kept
)

// What is said of members of which nothing can be had.
const (
	leftNothing = "it has left nothing"
	notEnded    = "it has not ended, or its host is not done with it yet: ask again then"
)

// nameOf is the folder of a member. Those of one assignment are in the order of epochs and members.
func nameOf(l work.Label) string {
	return fmt.Sprintf("%s_%010d_%010d", l.Assignment, l.Epoch, l.Member)
}

// ofName is what a folder of nameOf has the name of; false: it is none.
func ofName(name string) (assignment string, epoch, member uint32, is bool) {
	parts := strings.Split(name, "_")
	if len(parts) < 3 {
		return "", 0, 0, false
	}
	n := len(parts)
	e, errE := strconv.ParseUint(parts[n-2], 10, 32)
	m, errM := strconv.ParseUint(parts[n-1], 10, 32)
	return strings.Join(parts[:n-2], "_"), uint32(e), uint32(m), errE == nil && errM == nil
}

// Make makes the folder anew in which a member of a group leaves its artifacts, which is a user's; -1: this process's.
func (s *Store) Make(l work.Label, group string, uid, gid int) (string, error) {
	at := filepath.Join(s.Dir, live, nameOf(l))
	dir := filepath.Join(at, group)
	if err := errors.Join(wipe(at), os.MkdirAll(at, 0o700), os.Mkdir(dir, 0o700)); err != nil {
		return "", err
	}
	if uid != os.Geteuid() || gid != os.Getegid() {
		if err := os.Chown(dir, uid, gid); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// Keep keeps what a member has left, which has ended, and makes room for it. It may be called again, and for members without artifacts.
func (s *Store) Keep(l work.Label) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := filepath.Join(s.Dir, live, nameOf(l))
	groups, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(groups) == 0 {
		return errors.Join(err, wipe(from))
	}
	to := filepath.Join(s.Dir, kept, nameOf(l))
	if os.Remove(filepath.Join(from, groups[0].Name())) == nil {
		if err := errors.Join(wipe(to), os.MkdirAll(to, 0o700), atomicfile.Replace(filepath.Join(to, whyFile), []byte(leftNothing), 0o600), wipe(from)); err != nil {
			return err
		}
		return s.forget()
	}
	size, err := sizeOf(from)
	if err != nil {
		return err
	}
	if err := errors.Join(wipe(to), os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(filepath.Join(from, sizeFile), strconv.AppendInt(nil, size, 10), 0o600), os.Rename(from, to)); err != nil {
		return err
	}
	if size > s.Most {
		s.Log.Warn("artifacts of a member are not kept", "assignment", l.Assignment, "member", l.Member, "bytes", size, "limit", s.Most)
		return s.lose(to, fmt.Sprintf("they had %d bytes, and their host keeps %d in all (artifacts under limits in its policy)", size, s.Most))
	}
	return s.forget()
}

// sizeOf is how many bytes the files of a folder have. Folders that a program has closed are opened.
func sizeOf(dir string) (all int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_ = root.Chmod(name, 0o700) // before it is read: what can't be read says so
			return nil
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			all += info.Size()
		}
		return err
	})
	return all, err
}

// entry is a member of which something is kept.
type entry struct {
	dir  string
	used time.Time
	size int64
	why  string // nothing else can be had of it

	member uint32 // as members says
}

// entries are those that are kept, the last used first.
func (s *Store) entries() (all []entry, err error) {
	dirs, err := os.ReadDir(filepath.Join(s.Dir, kept))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, d := range dirs {
		e := entry{dir: filepath.Join(s.Dir, kept, d.Name())}
		if info, err := os.Stat(e.dir); err == nil {
			e.used = info.ModTime()
		}
		if why, err := os.ReadFile(filepath.Join(e.dir, whyFile)); err == nil {
			e.why = string(why)
		}
		if raw, err := os.ReadFile(filepath.Join(e.dir, sizeFile)); err == nil {
			e.size, _ = strconv.ParseInt(string(raw), 10, 64) // it is this host's own
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return b.used.Compare(a.used) })
	return all, err
}

// forget removes what is too old, and what was not used for longest where all is too much. The caller holds mu.
func (s *Store) forget() error {
	all, err := s.entries()
	if err != nil {
		return err
	}
	var errs []error
	left, notes := s.Most, 0
	for _, e := range all {
		if s.read[e.dir] > 0 {
			left -= e.size
			continue
		}
		age := time.Since(e.used)
		if e.why != "" {
			if notes++; notes > maxNotes || age > noteTimes*s.Age {
				errs = append(errs, wipe(e.dir))
			}
			continue
		}
		left -= e.size
		switch {
		case age > s.Age:
			errs = append(errs, s.lose(e.dir, fmt.Sprintf("nobody has fetched them for %v, and their host keeps them no longer (artifacts_days under limits in its policy)", s.Age)))
		case left < 0:
			errs = append(errs, s.lose(e.dir, fmt.Sprintf("their host has made room for those of other members: it keeps %d bytes in all (artifacts under limits in its policy)", s.Most)))
		}
	}
	return errors.Join(errs...)
}

// lose removes what is kept of a member, and says why. The caller holds mu.
func (s *Store) lose(dir, why string) error {
	s.Log.Info("artifacts of a member are removed", "member", filepath.Base(dir), "why", why)
	entries, err := os.ReadDir(dir)
	if err := errors.Join(err, atomicfile.Replace(filepath.Join(dir, whyFile), []byte(why), 0o600)); err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, wipe(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}

// Forget removes what is too old.
func (s *Store) Forget() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forget()
}

// wipe removes a folder, also where a program has closed folders in it.
func wipe(dir string) error {
	if err := os.RemoveAll(dir); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_, _ = sizeOf(dir) // which opens them
	return os.RemoveAll(dir)
}

// members are those of an epoch that are known, in their order, also such as have not ended.
func (s *Store) members(of Of) (all []entry, err error) {
	found, err := s.entries()
	if err != nil {
		return nil, err
	}
	running, err := os.ReadDir(filepath.Join(s.Dir, live))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, d := range running {
		found = append(found, entry{dir: filepath.Join(s.Dir, live, d.Name()), why: notEnded})
	}
	last := of.Epoch
	for _, e := range found {
		assignment, epoch, member, is := ofName(filepath.Base(e.dir))
		if !is || assignment != of.Assignment || epoch < last || of.Epoch > 0 && epoch > last {
			continue
		}
		if epoch > last {
			last, all = epoch, nil
		}
		e.member = member
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.member, b.member) })
	return all, nil
}
