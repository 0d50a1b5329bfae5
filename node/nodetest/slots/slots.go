// Package slots has weight files in memory, on a disk that may hang. Only tests import it.
package slots

import (
	"errors"
	"io"
	"sync"

	"github.com/swarmd/swarmd/internal/session/models"
)

// Slots are weight files in memory.
type Slots struct {
	files [3]memory // local and the two that take turns
	mu    sync.Mutex
	turn  int
}

var _ models.Slots = (*Slots)(nil)

var names = [3]string{"local", "merged-0", "merged-1"}

// New returns files of so many bytes.
func New(size int64, d *Disk) *Slots {
	s := &Slots{}
	for i := range s.files {
		s.files[i].b, s.files[i].disk = make([]byte, size), d
	}
	return s
}

// File returns the file of a name that an answer gave, or nil.
func (s *Slots) File(name string) models.Slot {
	for i, n := range names {
		if n == name {
			return &s.files[i]
		}
	}
	return nil
}

// Reopen gives the files to a new run of the daemon, which names them as the one before had them.
func (s *Slots) Reopen(local, committed string) error {
	turns := map[string]int{"": 0, names[1]: 1, names[2]: 2}
	turn, ok := turns[committed]
	if local != names[0] || !ok {
		return errors.New("no such weight files")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = turn
	return nil
}

func (s *Slots) pick(next int) *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &s.files[1+(s.turn+next)%2]
}

// Local implements models.Slots.
func (s *Slots) Local() models.Slot { return &s.files[0] }

// LocalName implements models.Slots.
func (s *Slots) LocalName() string { return names[0] }

// Merging implements models.Slots.
func (s *Slots) Merging() models.Slot { return s.pick(0) }

// Committed implements models.Slots.
func (s *Slots) Committed() models.Slot { return s.pick(1) }

// Merged implements models.Slots.
func (s *Slots) Merged(string) {}

// Commit implements models.Slots.
func (s *Slots) Commit() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	return names[1+(s.turn+1)%2]
}

// Close implements models.Slots.
func (s *Slots) Close() error { return nil }

// memory is one weight file. Like a real one it bears readers and writers at once.
type memory struct {
	disk *Disk
	mu   sync.Mutex
	b    []byte
}

// Disk may hang: then what is written to it waits until it answers.
type Disk struct {
	mu      sync.Mutex
	answers chan struct{} // closed when it answers; nil: it does
}

// Hang makes later writes wait, or lets all go on.
func (d *Disk) Hang(hangs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if hangs == (d.answers != nil) {
		return
	}
	if hangs {
		d.answers = make(chan struct{})
		return
	}
	close(d.answers)
	d.answers = nil
}

func (d *Disk) wait() {
	d.mu.Lock()
	answers := d.answers
	d.mu.Unlock()
	if answers != nil {
		<-answers
	}
}

var errRange = errors.New("outside of the file")

// ReadAt implements io.ReaderAt.
func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if off < 0 || off > int64(len(m.b)) {
		return 0, errRange
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.disk.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if off < 0 || off+int64(len(p)) > int64(len(m.b)) {
		return 0, errRange
	}
	return copy(m.b[off:], p), nil
}
