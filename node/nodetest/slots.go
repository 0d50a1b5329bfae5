package nodetest

import (
	"errors"
	"io"
	"sync"

	"github.com/swarmd/swarmd/internal/session/models"
)

// slots are weight files in memory.
type slots struct {
	files [3]memory // local and the two that take turns
	mu    sync.Mutex
	turn  int
}

var _ models.Slots = (*slots)(nil)

var slotNames = [3]string{"local", "merged-0", "merged-1"}

func newSlots(size int64, d *disk) *slots {
	s := &slots{}
	for i := range s.files {
		s.files[i].b, s.files[i].disk = make([]byte, size), d
	}
	return s
}

func (s *slots) file(name string) *memory {
	for i, n := range slotNames {
		if n == name {
			return &s.files[i]
		}
	}
	return nil
}

func (s *slots) pick(next int) *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &s.files[1+(s.turn+next)%2]
}

// Local implements models.Slots.
func (s *slots) Local() models.Slot { return &s.files[0] }

// LocalName implements models.Slots.
func (s *slots) LocalName() string { return slotNames[0] }

// Merging implements models.Slots.
func (s *slots) Merging() models.Slot { return s.pick(0) }

// Committed implements models.Slots.
func (s *slots) Committed() models.Slot { return s.pick(1) }

// Commit implements models.Slots.
func (s *slots) Merged(string) {}

func (s *slots) Commit() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	return slotNames[1+(s.turn+1)%2]
}

// Close implements models.Slots.
func (s *slots) Close() error { return nil }

// memory is one weight file. Like a real one it bears readers and writers at once.
type memory struct {
	disk *disk
	mu   sync.Mutex
	b    []byte
}

// disk may hang: then what is written to it waits until it answers.
type disk struct {
	mu      sync.Mutex
	answers chan struct{} // closed when it answers; nil: it does
}

// hang makes later writes wait, or lets all go on.
func (d *disk) hang(hangs bool) {
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

func (d *disk) wait() {
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
