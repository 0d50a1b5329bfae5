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
	return errors.Join(s.keep(nameOf(l)), s.forget())
}

// keep takes the folder of a member from those that run to those that are kept. That comes first, and needs no room on the disk: whatever fails
// behind it, what is there counts, and is told of. The caller holds mu.
func (s *Store) keep(name string) error {
	from, to := filepath.Join(s.Dir, live, name), filepath.Join(s.Dir, kept, name)
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	now := time.Now()
	if err := errors.Join(
		wipe(filepath.Join(from, sizeFile)), wipe(filepath.Join(from, whyFile)), // this host alone writes them
		wipe(to), os.MkdirAll(filepath.Dir(to), 0o700), os.Chtimes(from, now, now), os.Rename(from, to),
	); err != nil {
		return err
	}
	_, _, err := s.settle(to)
	return err
}

// Sweep keeps what members have left that are not hosted any more, and were not kept at their end, and removes what is too old.
func (s *Store) Sweep(hosted func() ([]work.Label, error)) error {
	found, err := os.ReadDir(filepath.Join(s.Dir, live)) // first: what is made from now on is not meant
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	stay := map[string]bool{}
	if len(found) > 0 {
		labels, err := hosted()
		if err != nil {
			return err
		}
		for _, l := range labels {
			stay[nameOf(l)] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, d := range found {
		if !stay[d.Name()] {
			errs = append(errs, s.keep(d.Name()))
		}
	}
	return errors.Join(append(errs, s.forget())...)
}

// entry is a member of which something is kept.
type entry struct {
	dir  string
	used time.Time
	size int64
	why  string // nothing else can be had of it

	member uint32 // as members says
}

// entries are those that are kept, the last used first. The caller holds mu.
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
		} else if e.why == "" {
			if e.size, e.why, err = s.settle(e.dir); err != nil { // no reason to have none of the others
				s.Log.Warn("can't keep the artifacts of a member", "member", d.Name(), "err", err)
			}
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
	note := func() error { return atomicfile.Replace(filepath.Join(dir, whyFile), []byte(why), 0o600) }
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	noted := note() // first: a host that is cut off here hands out no half
	var errs []error
	for _, e := range entries {
		errs = append(errs, wipe(filepath.Join(dir, e.Name())))
	}
	if noted != nil { // the disk was full, and has room now
		if noted = note(); noted != nil {
			errs = append(errs, noted, wipe(dir)) // nothing at all rather than what seems to be empty
		}
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
