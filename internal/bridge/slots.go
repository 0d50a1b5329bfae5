package bridge

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/space"
)

// Slot is one weight file, open in the daemon. It is safe for concurrent use; after its Slots are closed every call
// fails. Length and offsets are in bytes.
type Slot struct {
	name string // as the program knows it
	dir  dirs
	path string // where it lies now
	size int64
	file *os.File
	view mapping // of file

	device, inode uint64                // of the file
	private       bool                  // it lies where the program can't reach it
	alone         atomic.Bool           // and nobody else can write it
	broken        atomic.Pointer[Error] // why it can't be used
}

var (
	_ io.ReaderAt = (*Slot)(nil)
	_ io.WriterAt = (*Slot)(nil)
)

// Name returns the slot's path as the program is told: relative to the bridge directory, or absolute.
func (s *Slot) Name() string { return s.name }

// Size returns the length that the file must have.
func (s *Slot) Size() int64 { return s.size }

// check finds a program's truncation before it can be taken for weights. It asks nobody where no program could truncate it: it is
// called for each leaf.
func (s *Slot) check() error {
	if err := s.broken.Load(); err != nil {
		return err
	}
	if s.alone.Load() {
		return nil
	}
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("stat weight file %s: %w", s.name, err)
	}
	if info.Size() != s.size {
		return s.changed(fmt.Sprintf("is %d bytes, want %d", info.Size(), s.size))
	}
	return nil
}

func (s *Slot) changed(how string) error {
	return &Error{
		"SLOT_SIZE", fmt.Sprintf("weight file %s %s: the program must not truncate or extend it", s.name, how),
		"map the file shared and write it in place",
	}
}

// ReadAt implements io.ReaderAt. A file of the wrong length is an error.
func (s *Slot) ReadAt(p []byte, off int64) (int, error) {
	if s.view.read(p, off) {
		return s.copied(len(p))
	}
	if err := s.check(); err != nil {
		return 0, err
	}
	n, err := s.file.ReadAt(p, off)
	if errors.Is(err, io.EOF) && off+int64(n) < s.size {
		// Truncated between the check and the read.
		err = errors.Join(s.check(), io.ErrUnexpectedEOF)
	}
	return n, err
}

// WriteAt implements io.WriterAt. It never extends the file.
func (s *Slot) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off > s.size || int64(len(p)) > s.size-off {
		return 0, fmt.Errorf("write weight file %s: %d bytes at %d are beyond its %d", s.name, len(p), off, s.size)
	}
	if s.view.write(p, off) {
		return s.copied(len(p))
	}
	if err := s.check(); err != nil {
		return 0, err
	}
	return s.file.WriteAt(p, off)
}

// Lend calls use with the n bytes of the file at off, in place: no copy is made, and what is written there is in the file. It
// returns false, and has not called use, where the file is not in memory; use ReadAt and WriteAt then. Use keeps nothing of
// the bytes, and touches them in its own goroutine. A program can change them at any time; if it truncates the file, use breaks
// off with a panic that Lend turns into an error, so use must leave nothing locked behind but by defer. Closing the Slots waits
// for use.
func (s *Slot) Lend(off int64, n int, use func([]byte)) (bool, error) {
	if err := s.check(); err != nil {
		return true, err
	}
	lent, whole := s.view.lend(off, n, use)
	if !lent {
		return false, nil
	}
	if err := s.check(); err != nil {
		return true, err
	}
	if !whole {
		return true, s.changed("was shorter for a while")
	}
	return true, nil
}

// copied looks at the file's length after a copy through the mapping: behind a new end of the file, the rest of its last page
// is zeros, and no fault tells.
func (s *Slot) copied(n int) (int, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	return n, nil
}

// close removes the file if the name still leads to it: a newer session may have taken the name.
func (s *Slot) close() error {
	own, err := s.file.Stat()
	if errors.Is(err, fs.ErrClosed) { // another one could not be made in its place
		return nil
	}
	if err == nil {
		if now, statErr := os.Lstat(s.path); statErr == nil && os.SameFile(own, now) {
			err = os.Remove(s.path)
		}
	}
	return errors.Join(err, s.free())
}

// free gives back what the daemon holds of the file, which stays.
func (s *Slot) free() error { return errors.Join(s.view.close(), s.file.Close()) }

// Slots are the three weight files of one session. Safe for concurrent use.
type Slots struct {
	local *Slot
	dir   dirs
	owner *Owner

	mu        sync.Mutex
	merged    [2]*Slot
	committed int // index in merged, -1 before the first Commit
	verify    bool
	merges    uint64 // how often the merging slot was given out, or committed
	sum       string // of what has been merged into it
	notes     [2]*os.File
	stale     [2]*os.File // by index in merged: the file that was there before, which a program still reads; nil: none
	sums      [2]string   // by index in merged: hex SHA-256 of what was committed there; empty: not known
	closed    bool
}

// Place says where weight files lie and for whom.
type Place struct {
	Dir     string // the bridge directory
	Spill   string // takes the files when Dir's file system is too full; empty: none does
	SpillAs string // Spill as the program knows it; empty: the same path
	Owner   *Owner // nil: the daemon's user, and no container
	// MaxModel bounds the length of one file, as the node's owner says; 0: nothing does.
	MaxModel int64
	// Verify has committed models summed up for the program whatever their size.
	Verify bool
}

// smallModel is what is summed up in any case, in bytes: it takes about a millisecond.
const smallModel = 1 << 20

// CreateSlots makes the three files of the given length in the place's directory, with all their space allocated. If its file
// system is too full, or would be nearly, they go to the spill directory, with a log line, and their names are absolute paths. Files that an
// earlier session left under the same names are replaced. The caller closes the Slots, which removes the files.
func CreateSlots(at Place, bytes int64, log *slog.Logger) (*Slots, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("create weight files: length %d is negative", bytes)
	}
	if at.MaxModel > 0 && bytes > at.MaxModel {
		return nil, &Error{
			ReasonModelTooLarge, fmt.Sprintf("the program's model has %d bytes, and this node takes %d at most", bytes, at.MaxModel),
			"see which tensors the program lists, or start the node with a larger --max-model",
		}
	}
	s, err := at.create(at.Dir, "", bytes)
	if noSpace(err) && at.Spill != "" {
		log.Warn("weight files do not fit into the bridge directory, the spill directory takes them",
			"dir", at.Dir, "spill_dir", at.Spill, "bytes", threefold(bytes), "err", err)
		if at.Spill, err = filepath.Abs(at.Spill); err == nil {
			err = makeSpill(at.Spill, at.Owner)
		}
		if err == nil {
			s, err = at.create(at.Spill, at.spillName(), bytes)
		}
	}
	if noSpace(err) {
		return nil, &Error{
			ReasonNoSpace, fmt.Sprintf("no space for three weight files of %d bytes: %v", bytes, err),
			"free space, or name a directory on a larger file system with --bridge-dir",
		}
	}
	return s, err
}

func (at Place) spillName() string {
	if at.SpillAs != "" {
		return at.SpillAs
	}
	return at.Spill
}

// fileNames are the names of the three files: the program's, then the two that take turns.
var fileNames = [...]string{wire.LocalName, wire.Merged0Name, wire.Merged1Name}

// create makes the files in dir, which the program knows as prefix; empty: it finds them in the bridge directory.
func (at Place) create(dir, prefix string, bytes int64) (*Slots, error) {
	if err := removeSlots(dir); err != nil { // What is replaced is not in the way.
		return nil, err
	}
	if err := space.Fits(dir, threefold(bytes)); err != nil {
		return nil, err
	}
	where, err := at.makeDirs(dir, prefix)
	if err != nil {
		return nil, err
	}
	s := &Slots{committed: -1, dir: where, owner: at.Owner, verify: at.Verify || bytes <= smallModel}
	for i, into := range s.files() {
		slot := newSlot(where, fileNames[i], bytes)
		allocate := slot.allocatePrivate
		if into == &s.local {
			allocate = slot.allocateLocal
		}
		if err := allocate(at.Owner); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		*into = slot
	}
	if err := s.openNotes(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newSlot(dir dirs, name string, bytes int64) *Slot {
	return &Slot{name: filepath.Join(dir.prefix, name), dir: dir, path: filepath.Join(dir.public, name), size: bytes}
}

// allocateLocal makes the file that the program writes.
func (s *Slot) allocateLocal(owner *Owner) (err error) {
	if s.file, err = allocate(s.path, s.size); err != nil {
		return fmt.Errorf("create weight file %s: %w", s.path, err)
	}
	if err := owner.own(s.path); err != nil {
		return errors.Join(fmt.Errorf("give weight file to the program: %w", err), s.file.Close(), os.Remove(s.path))
	}
	return s.opened()
}

// opened notes which file is open, which has the right length, and maps it.
func (s *Slot) opened() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(s.file.Fd()), &st); err != nil {
		return fmt.Errorf("stat weight file %s: %w", s.name, err)
	}
	s.device, s.inode = st.Dev, st.Ino
	s.alone.Store(s.private)
	s.view.open(s.file, s.size)
	return nil
}

func (s *Slots) files() []**Slot { return []**Slot{&s.local, &s.merged[0], &s.merged[1]} }

// OpenSlots opens the files of a session that an earlier run of the daemon made, named as it told the program: local, and
// committed, empty if nothing was. If one of these is missing, or has another length, that is an error, and the files stay; others are
// made anew. The caller closes the Slots, which removes the files.
func OpenSlots(at Place, bytes int64, local, committed string) (*Slots, error) {
	dir, prefix := at.Dir, ""
	if local != wire.LocalName {
		dir, prefix = at.Spill, at.spillName()
	}
	if local != filepath.Join(prefix, wire.LocalName) {
		return nil, fmt.Errorf("open weight files: %s is not where they are kept now", local)
	}
	where, err := at.makeDirs(dir, prefix)
	if err != nil {
		return nil, err
	}
	s := &Slots{committed: -1, dir: where, owner: at.Owner, verify: at.Verify || bytes <= smallModel}
	for i, into := range s.files() {
		slot := newSlot(where, fileNames[i], bytes)
		var err error
		if into == &s.local {
			slot.file, err = openSlot(slot.path)
		} else if err = slot.openMerged(); slot.name != committed && (err != nil || slot.check() != nil) {
			_ = slot.file.Close() // it was being made anew, perhaps, and nobody needs what it holds
			err = slot.allocatePrivate(at.Owner)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open weight file: %w", err), s.abandon())
		}
		*into = slot
		if err := slot.check(); err != nil {
			return nil, errors.Join(err, s.abandon())
		}
	}
	for _, slot := range s.files() {
		if (*slot).inode != 0 { // it was made
			continue
		}
		if err := (*slot).opened(); err != nil {
			return nil, errors.Join(err, s.abandon())
		}
	}
	if err := s.openNotes(); err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	switch committed {
	case s.merged[0].name:
		s.committed = 0
	case s.merged[1].name:
		s.committed = 1
	case "":
	default:
		return nil, errors.Join(fmt.Errorf("open weight files: %s is none of them", committed), s.abandon())
	}
	return s, nil
}

// abandon frees the descriptors and leaves the files.
func (s *Slots) abandon() error {
	var errs []error
	for _, slot := range s.files() {
		if *slot != nil {
			errs = append(errs, (*slot).free())
		}
	}
	for _, f := range s.notes {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// threefold is the length of three files, or of more than there can be.
func threefold(bytes int64) int64 {
	if bytes > math.MaxInt64/3 {
		return math.MaxInt64
	}
	return 3 * bytes
}

// allocate makes the file and reserves its space, so that no later write can find the file system full.
func allocate(path string, bytes int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	for bytes > 0 {
		err = unix.Fallocate(int(f.Fd()), 0, 0, bytes)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		// The file system can not reserve (NFS before 4.2): writing zeros does the same, slower.
		_, err = io.CopyN(f, zeros{}, bytes)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func noSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// Local returns the slot that the program writes.
func (s *Slots) Local() *Slot { return s.local }

// Merging returns the slot to receive the next model into: never the committed one. The program can't reach its file, and finds
// another one under its name after the commit if it could still have written this one. If there is no space for that, all use
// of the slot fails until there is.
func (s *Slots) Merging() *Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.mergingLocked()
	s.merges, s.sum = s.merges+1, ""
	if !s.closed {
		s.takeBackLocked(i)
	}
	return s.merged[i]
}

func (s *Slots) mergingLocked() int {
	if s.committed == 0 {
		return 1
	}
	return 0
}

// Committed returns the slot of the committed model, nil before the first Commit.
func (s *Slots) Committed() *Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committed < 0 {
		return nil
	}
	return s.merged[s.committed]
}

// CommittedName returns the committed slot's name for the program, empty before the first Commit.
func (s *Slots) CommittedName() string {
	if c := s.Committed(); c != nil {
		return c.Name()
	}
	return ""
}

// Merged says that the merging slot holds a whole model. The note, a line, is for a later run of the daemon: see Sweep. Merged also takes the
// model's SHA-256, if programs are to be told it, for which it reads all of the file; Commit reads nothing: without it, or once the
// merging slot is given out anew, a model has no sum.
func (s *Slots) Merged(note string) {
	s.mu.Lock()
	i := s.mergingLocked()
	m, merge := s.merged[i], s.merges
	if !s.closed {
		_, _ = s.notes[i].WriteAt([]byte(note+"\n"), 0) // in one step, over one that may be longer; without it a later run finds nothing
	}
	s.mu.Unlock()
	if !s.verify {
		return
	}
	sum := m.sum() // while the program can't reach it
	s.mu.Lock()
	defer s.mu.Unlock()
	if merge == s.merges {
		s.sum = sum
	}
}

// Commit makes the merging slot the committed one, under its name, which it returns for the program.
func (s *Slots) Commit() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed = s.mergingLocked()
	m := s.merged[s.committed]
	s.sums[s.committed] = s.sum
	s.merges, s.sum = s.merges+1, ""
	if m.private && !s.closed {
		if err := m.publish(); err != nil {
			m.broken.Store(lost(err))
		}
	}
	return m.Name()
}

// Sum returns the SHA-256, in hex, of what was committed to the slot of this name; empty: it was not asked for, or the daemon
// was started since.
func (s *Slots) Sum(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.merged {
		if m.Name() == name {
			return s.sums[i]
		}
	}
	return ""
}

// Close removes the files and frees the daemon's descriptors; a program that has them open or mapped keeps its view.
// Closing twice is allowed.
func (s *Slots) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, slot := range []*Slot{s.local, s.merged[0], s.merged[1]} {
		if slot != nil {
			errs = append(errs, slot.close())
		}
	}
	_ = s.cutLocked(0, 1)
	for i, f := range s.notes {
		if f != nil {
			errs = append(errs, removeAll(s.dir.private, noteName(i)), f.Close())
		}
	}
	if err := os.Remove(s.dir.private); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
