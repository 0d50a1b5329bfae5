package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/userdirs"
)

// Bounds of what is read.
const (
	maxFile    = 64 << 10 // bytes of one entry's file
	maxEntries = 4096
	maxField   = 4096 // bytes of one field
)

const suffix = ".json"

// Entry is one component that runs as a process.
type Entry struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // when it began, in clock ticks since boot, as /proc/PID/stat has it; Add fills it
	Role      string `json:"role"`       // sn, sl, swop, swci or spire-server: the process runs run-ROLE
	Name      string `json:"name"`       // of the node, may be empty
	Platform  string `json:"platform"`   // PYT or TF of an SL, else empty
	StateDir  string `json:"state_dir"`
	Scope     string `json:"scope"`

	path  string // of its file
	owner uint32 // of its file
}

// Dir is where this user's entries are: $SWARM_RUN_DIR, or /run/swarmd/components for root and
// $XDG_RUNTIME_DIR/swarmd/components for others, else swarmd/components in their state.
func Dir(getenv func(string) string) (string, error) {
	if dir := getenv("SWARM_RUN_DIR"); dir != "" {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("read SWARM_RUN_DIR: %w", err)
		}
		return dir, nil
	}
	dir, err := userdirs.Of(getenv).Components()
	if err != nil {
		err = fmt.Errorf("the list of running components, unless SWARM_RUN_DIR names one: %w", err)
	}
	return dir, err
}

// Add registers this process; the zero PID and StartTime are filled in. remove takes the entry out again and may be called more
// than once. A process that ends without it leaves an entry that List recognises as stale.
func Add(e Entry) (remove func(), err error) {
	dir, err := Dir(os.Getenv)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("register running component: %w", err)
	}
	if _, err := list(dir, ""); err != nil { // what earlier processes left goes when the next one starts
		return nil, err
	}
	if e.PID == 0 {
		e.PID = os.Getpid()
	}
	if e.StartTime, err = startTime(e.PID); err != nil {
		return nil, fmt.Errorf("register running component: %w", err)
	}
	path := filepath.Join(dir, strconv.Itoa(e.PID)+"-"+strconv.FormatUint(e.StartTime, 10)+suffix)
	if err := write(path, e); err != nil {
		return nil, fmt.Errorf("register running component: %w", err)
	}
	return func() { _ = os.Remove(path) }, nil // stale ones are recognised, whatever is left
}

// write puts the whole file in place or nothing.
func write(path string, e Entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return atomicfile.Replace(path, append(b, '\n'), 0o600)
}

// List returns the components of a scope whose processes run, by role and name; "" is every scope. Entries whose process is gone are removed;
// files that are no entries, or not their owner's alone to write, are passed over. No directory means that nothing runs.
func List(scope string) ([]Entry, error) {
	dir, err := Dir(os.Getenv)
	if err != nil {
		return nil, nil //nolint:nilerr // where nothing can be registered nothing is
	}
	return list(dir, scope)
}

func list(dir, scope string) ([]Entry, error) {
	d, err := openDir(dir)
	if d == nil {
		return nil, err
	}
	defer d.Close()
	within := filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd()))) // of this very directory, whatever has its name by now
	names, err := d.Readdirnames(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("list running components: %w", err)
	}
	var out []Entry
	for _, name := range names {
		if !strings.HasSuffix(name, suffix) || strings.HasPrefix(name, ".") {
			continue
		}
		e, err := readEntry(filepath.Join(within, name))
		if err != nil {
			continue
		}
		if start, err := startTime(e.PID); errors.Is(err, fs.ErrNotExist) || err == nil && start != e.StartTime {
			_ = os.Remove(e.path) // the next look removes it
			continue
		}
		if scope == "" || e.Scope == scope {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Entry) int {
		if c := strings.Compare(a.Role+" "+a.Name, b.Role+" "+b.Name); c != 0 {
			return c
		}
		return a.PID - b.PID
	})
	return out, nil
}

// openDir opens a directory and holds that nobody but its owner can put entries into it, and that it is ours; root may read
// that of a user, whose entries then stand for that user's processes only. It returns nil if there is none.
func openDir(dir string) (*os.File, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("list running components: %s is no directory: set SWARM_RUN_DIR to another", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("list running components: %w", err)
	}
	if err := checkDir(dir, d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func checkDir(dir string, d *os.File) error {
	info, err := d.Stat()
	if err != nil {
		return fmt.Errorf("list running components: %w", err)
	}
	owner, known := ownerOf(info)
	euid := uint32(os.Geteuid()) //nolint:gosec // never negative on Linux
	switch {
	case !known || owner != euid && euid != 0:
		return fmt.Errorf("list running components: %s belongs to user %d: set SWARM_RUN_DIR to a directory of your own", dir, owner)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("list running components: others may write to %s: chmod 700 %s", dir, dir)
	}
	return nil
}

// readEntry takes one entry. Whoever wrote the file, what it says is checked again before anything is done with it.
func readEntry(path string) (Entry, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return Entry{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Entry{}, err
	}
	owner, known := ownerOf(info)
	if !info.Mode().IsRegular() || !known || info.Mode().Perm()&0o022 != 0 {
		return Entry{}, fmt.Errorf("%s: not a file that only its owner writes", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil || len(b) > maxFile {
		return Entry{}, fmt.Errorf("%s: %d bytes or more: %w", path, len(b), err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	e := Entry{}
	if err := d.Decode(&e); err != nil {
		return Entry{}, fmt.Errorf("%s: %w", path, err)
	}
	for _, field := range []string{e.Role, e.Name, e.Platform, e.StateDir, e.Scope} {
		if len(field) > maxField {
			return Entry{}, fmt.Errorf("%s: a field of %d bytes", path, len(field))
		}
	}
	if e.PID <= 1 {
		return Entry{}, fmt.Errorf("%s: process %d is no component", path, e.PID)
	}
	e.path, e.owner = path, owner
	return e, nil
}

func ownerOf(info fs.FileInfo) (uint32, bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, true
}
