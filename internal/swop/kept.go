package swop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/work"
)

// Bounds of what is kept of members that have ended.
const (
	keptMembers = 64
	keptLines   = 10_000
	keptBytes   = 256 << 10 // of the last lines of one
	keepLimit   = 10 * time.Second
	keptSuffix  = ".log"
)

// Kept has the last lines of members of which nothing else is left, in a directory that only the host's user reads: why a program failed is
// asked after it has.
type Kept struct {
	Dir string
	Log *slog.Logger

	mu sync.Mutex
}

// Of has what is cleaned up kept first, where the executor can show it.
func (k *Kept) Of(t work.Type) work.Type {
	if p, prints := t.Executor.(work.Printer); prints {
		t.Executor = keeper{t.Executor, p, k}
	}
	return t
}

// keeper is an executor whose members leave their last lines.
type keeper struct {
	work.Executor

	printer work.Printer
	kept    *Kept
}

// Clean implements work.Executor. What can't be kept is no reason to leave something running.
func (k keeper) Clean(ctx context.Context, l work.Label) error {
	if err := k.kept.keep(ctx, l, k.printer); err != nil && ctx.Err() == nil {
		k.kept.Log.Warn("can't keep what a task has printed", "assignment", l.Assignment, "err", err)
	}
	return k.Executor.Clean(ctx, l)
}

// keptLine is a line as it is kept.
type keptLine struct{ From, Text string }

// keep keeps the last lines of a member. One that has printed nothing leaves what was kept before.
func (k *Kept) keep(ctx context.Context, l work.Label, p work.Printer) error {
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	var mu sync.Mutex
	var all []keptLine
	size := 0
	err := p.Print(ctx, l, keptLines, false, func(from, line string) error {
		mu.Lock()
		defer mu.Unlock()
		all, size = append(all, keptLine{from, line}), size+len(from)+len(line)
		for size > keptBytes {
			size -= len(all[0].From) + len(all[0].Text)
			all = all[1:]
		}
		return nil
	})
	if len(all) == 0 || err != nil {
		return err
	}
	var raw bytes.Buffer
	for _, line := range all {
		if err := json.NewEncoder(&raw).Encode(line); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return err
	}
	if err := atomicfile.Replace(filepath.Join(k.Dir, keptName(l)), raw.Bytes(), 0o600); err != nil {
		return err
	}
	return k.forget()
}

// keptName is the file of a member. Those of one assignment are in the order of epochs and members.
func keptName(l work.Label) string {
	return fmt.Sprintf("%s_%010d_%010d%s", l.Assignment, l.Epoch, l.Member, keptSuffix)
}

// forget removes the oldest files. The caller holds mu.
func (k *Kept) forget() error {
	entries, err := os.ReadDir(k.Dir)
	if err != nil {
		return err
	}
	age := func(e fs.DirEntry) time.Time {
		if info, err := e.Info(); err == nil {
			return info.ModTime()
		}
		return time.Time{}
	}
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return age(b).Compare(age(a)) })
	var errs []error
	for _, e := range entries[min(len(entries), keptMembers):] {
		errs = append(errs, os.Remove(filepath.Join(k.Dir, e.Name())))
	}
	return errors.Join(errs...)
}

// Print hands out what is kept of the last epoch of an assignment, but for members that were seen; false: nothing, or there was a later epoch.
func (k *Kept) Print(assignment string, tail int, seen map[work.Label]bool, emit func(from, line string) error) (bool, error) {
	entries, err := os.ReadDir(k.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	last := ""
	var names []string
	for _, e := range entries { // in the order of their names
		epoch, of := strings.CutPrefix(e.Name(), assignment+"_")
		if epoch, _, whole := strings.Cut(epoch, "_"); of && whole {
			if epoch != last {
				last, names = epoch, nil
			}
			names = append(names, e.Name())
		}
	}
	for l := range seen {
		if name := keptName(l); len(names) > 0 && epochOf(name) > epochOf(names[0]) {
			return false, nil
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == keptName(l) })
	}
	for _, name := range names {
		if err := printKept(filepath.Join(k.Dir, name), tail, emit); err != nil {
			return true, err
		}
	}
	return len(names) > 0, nil
}

// epochOf is the part of a kept file's name that says of which epoch it is. It sorts as epochs do.
func epochOf(name string) string {
	_, epoch, _ := strings.Cut(name, "_")
	epoch, _, _ = strings.Cut(epoch, "_")
	return epoch
}

// printKept hands out the last lines of each program in a file.
func printKept(file string, tail int, emit func(from, line string) error) error {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was the oldest, a moment ago
	}
	if err != nil {
		return err
	}
	var all []keptLine
	left := map[string]int{} // lines of each that are left out
	for line := range bytes.Lines(raw) {
		var l keptLine
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		all = append(all, l)
		left[l.From]++
	}
	for _, l := range all {
		if left[l.From]--; left[l.From] >= tail {
			continue
		}
		if err := emit(l.From, l.Text); err != nil {
			return err
		}
	}
	return nil
}
