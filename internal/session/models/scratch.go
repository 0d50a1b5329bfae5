package models

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/session/composite"
	"github.com/swarmd/swarmd/internal/space"
)

// Slot is one weight file. Reads and writes are at byte offsets of the flat vector.
type Slot interface {
	io.ReaderAt
	io.WriterAt
}

// LocalSlot is where a program offers its weights.
type LocalSlot interface {
	Local() Slot
	// LocalName is the local slot's name as the program knows it.
	LocalName() string
}

// Slots are the three weight files of a session: what the program offers, and the two that take turns as the committed
// model and the one being merged.
type Slots interface {
	LocalSlot
	Merging() Slot
	Committed() Slot
	// Merged says that the merging slot holds a whole model. Should this node be killed, its next run is shown the file with the note, a
	// line, if it is there still. It may read all of the file, for the checksum that programs are told.
	Merged(note string)
	// Commit makes the merging slot the committed one and returns its name as the program knows it.
	Commit() string
	Close() error
}

// Scratch makes files that only the daemon sees.
type Scratch struct {
	Dir   string
	Spool string // tried before Dir for files without a name; empty: not
}

// places are the directories for files without a name, in the order in which they are tried.
func (sc Scratch) places() []string {
	if sc.Spool == "" {
		return []string{sc.Dir}
	}
	return []string{sc.Spool, sc.Dir}
}

// Fits reports whether a file of so many bytes could be made now. It reserves nothing: in memory that would take its time.
func (sc Scratch) Fits(bytes int64) error {
	var errs []error
	for _, dir := range sc.places() {
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = space.Fits(dir, bytes)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", dir, err))
	}
	return joined(errs)
}

// File makes a file without a name and with all its space reserved. Closing it frees the space.
func (sc Scratch) File(bytes int64) (*os.File, error) {
	var errs []error
	for _, dir := range sc.places() {
		f, err := nameless(dir)
		if err == nil {
			if err = space.Fits(dir, bytes); err == nil {
				err = reserve(f, bytes)
			}
			if err == nil {
				return f, nil
			}
			err = errors.Join(err, f.Close())
		}
		errs = append(errs, fmt.Errorf("%s: %w", dir, err))
	}
	return nil, joined(errs)
}

// Sparse makes a file without a name of so many bytes that takes no space before it is written. It is on disk where that is
// possible: what a file system in memory holds can not be written back when memory is short.
func (sc Scratch) Sparse(bytes int64) (*os.File, error) {
	var errs []error
	for _, dir := range slices.Backward(sc.places()) {
		f, err := nameless(dir)
		if err == nil {
			if err = f.Truncate(bytes); err == nil {
				return f, nil
			}
			err = errors.Join(err, f.Close())
		}
		errs = append(errs, fmt.Errorf("%s: %w", dir, err))
	}
	return nil, joined(errs)
}

// joined makes one error of some, on one line.
func joined(errs []error) error {
	text := make([]string, len(errs))
	for i, err := range errs {
		text[i] = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return errors.New(strings.Join(text, "; "))
}

// nameless makes a file in dir that has no name, so that it is gone with its last descriptor.
func nameless(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err == nil || errors.Is(err, fs.ErrPermission) {
		return f, err
	}
	if f, err = os.CreateTemp(dir, ".scratch-*"); err != nil { // a file system that knows no such files
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// reserve gives a file its length and its space, so that no later write can find the file system full.
func reserve(f *os.File, bytes int64) error {
	var err error
	for bytes > 0 {
		err = unix.Fallocate(int(f.Fd()), 0, 0, bytes)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		// The file system can not reserve (NFS before 4.2): writing zeros does the same, slower.
		_, err = io.CopyN(io.NewOffsetWriter(f, 0), zeros{}, bytes)
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Stateful are weight files with an optimiser's state behind each of the two that take turns. The states lie in files of
// the daemon's own: a program sees the weights alone.
type Stateful struct {
	Slots
	files  [2]*os.File
	turn   int   // index of the file behind the merging slot
	weight int64 // bytes of the weights
}

// statePath is the file of one state in a directory; a later run of the daemon finds it by the session.
func statePath(dir, session string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("%s.state-%d", session, i))
}

// NewStateful adds states of so many bytes to the weight files of a new session. States of earlier sessions are removed: a
// node has one.
func (sc Scratch) NewStateful(slots Slots, session string, weights, bytes int64) (*Stateful, error) {
	st, err := createStates(sc.Dir, session, bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sc.Dir, err)
	}
	st.Slots, st.weight = slots, weights
	return st, nil
}

func createStates(dir, session string, bytes int64) (*Stateful, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.state-[01]"))
	if err != nil {
		return nil, err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return nil, err
		}
	}
	if bytes > math.MaxInt64/2 {
		return nil, unix.EFBIG
	}
	if err := space.Fits(dir, 2*bytes); err != nil {
		return nil, err
	}
	st := &Stateful{}
	for i := range st.files {
		f, err := os.OpenFile(statePath(dir, session, i), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			st.files[i] = f
			err = reserve(f, bytes)
		}
		if err != nil {
			return nil, errors.Join(err, st.remove())
		}
	}
	return st, nil
}

// OpenStateful finds the states of a session of a previous run; turn is that of the merging slot.
func (sc Scratch) OpenStateful(slots Slots, session string, weights, bytes int64, turn int) (*Stateful, error) {
	st := &Stateful{Slots: slots, turn: turn & 1, weight: weights}
	for i := range st.files {
		f, err := os.OpenFile(statePath(sc.Dir, session, i), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, errors.Join(err, st.remove())
		}
		st.files[i] = f
		if info, err := f.Stat(); err != nil || info.Size() != bytes {
			return nil, errors.Join(fmt.Errorf("%s is not the optimiser's state of this session", f.Name()), err, st.remove())
		}
	}
	return st, nil
}

// Turn is the index of the file behind the merging slot, for the node's own record.
func (st *Stateful) Turn() int { return st.turn }

func (st *Stateful) pick(s Slot, i int) Slot {
	return &composite.Slot{Weights: s, State: st.files[i], At: st.weight}
}

// Merging implements Slots.
func (st *Stateful) Merging() Slot { return st.pick(st.Slots.Merging(), st.turn) }

// Committed implements Slots.
func (st *Stateful) Committed() Slot { return st.pick(st.Slots.Committed(), 1-st.turn) }

// Merged implements Slots.
func (st *Stateful) Merged(note string) {
	st.Slots.Merged(note + "\t" + filepath.Base(st.files[st.turn].Name()))
}

// Commit implements Slots; weights and state turn together.
func (st *Stateful) Commit() string {
	st.turn = 1 - st.turn
	return st.Slots.Commit()
}

// Close implements Slots.
func (st *Stateful) Close() error { return errors.Join(st.remove(), st.Slots.Close()) }

func (st *Stateful) remove() error {
	var errs []error
	for _, f := range st.files {
		if f != nil {
			errs = append(errs, os.Remove(f.Name()), f.Close())
		}
	}
	return errors.Join(errs...)
}
