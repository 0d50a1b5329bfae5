package events

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

// File is the name of the events' file in an SN's state directory.
const File = "events"

// Most is how many events are kept: of those of the SN that has the most of them the oldest go.
const Most = 2000

const (
	// flush is how long what is noticed gathers before it is written.
	flush = 500 * time.Millisecond
	// rest is how long nothing is written after a write has failed.
	rest = 10 * time.Second
	// maxFile is how much of a file is read; it is written anew long before it is as large.
	maxFile = 4 * Most * maxLine
)

// Store keeps events. It is safe for concurrent use. Nobody waits for its disk but Run.
type Store struct {
	path string // empty: nothing is written
	self string
	log  *slog.Logger
	news chan struct{} // holds one: there is something to be written

	mu        sync.Mutex        // never held over the disk
	list      []Event           // oldest first
	by        map[string]string // by key: who has noticed it
	count     map[string]int    // by SN: how much of the list it has noticed
	heard     map[string]uint64 // by other SN: the newest number that was taken
	last      uint64            // the newest number that was given
	version   uint64            // grows with each change
	gone      int               // events that there was no room for, as far as is known
	unwritten []Event
	anew      bool // the file is to be written anew
	lines     int  // of the file
}

// Open opens the events of an SN in a file, which need not be there. What can't be read is left out, and said. Without a path, or where the file
// can't be read at all, they are kept in memory.
func Open(path, self string, log *slog.Logger) *Store {
	s := &Store{path: path, self: self, log: log, news: make(chan struct{}, 1), by: map[string]string{}, count: map[string]int{}, heard: map[string]uint64{}}
	s.touch()
	if path == "" {
		return s
	}
	if err := s.read(); err != nil {
		s.path = ""
		log.Warn("events are not kept over a restart: their file can't be read; move it away, check the disk of the state directory, and start this SN again", "file", path, "err", err)
	}
	return s
}

// read reads the file.
func (s *Store) read() error {
	f, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in, now, bad := bufio.NewReaderSize(f, maxLine), time.Now(), 0
	for size, long := 0, false; size < maxFile; {
		line, err := in.ReadSlice('\n')
		size += len(line)
		if errors.Is(err, bufio.ErrBufferFull) {
			long = true
			continue
		}
		if len(line) > 0 {
			s.lines++
			if e, ok := eventIn(bytes.TrimSuffix(line, []byte("\n")), now); ok && !long && err == nil {
				s.gone, e.Gone = max(s.gone, e.Gone), 0
				s.add(e)
			} else {
				bad++
			}
			long = false
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil {
			if bad > 0 {
				s.anew = true
				s.log.Warn("the file of events was damaged: some of what SNs have noticed is missing", "file", s.path, "lines_left_out", bad)
			}
			return nil
		}
	}
	s.anew = true
	return nil
}

// touch notes that there is something new. The caller holds mu, or has the store for itself.
func (s *Store) touch() { s.version = max(s.version+1, uint64(time.Now().UnixMicro())) } //nolint:gosec // it is not negative

// add takes an event in that is new, and reports whether it is kept. The caller holds mu, or has the store for itself.
func (s *Store) add(e Event) bool {
	if e.By == s.self {
		s.last = max(s.last, e.Number)
	} else {
		s.heard[e.By] = max(s.heard[e.By], e.Number)
	}
	key := e.key()
	if have, known := s.by[key]; known {
		if e.By != s.self || have == s.self {
			return false
		}
		s.drop(func(x *Event) bool { return x.key() == key }) // what this SN has seen itself counts more
	}
	if len(s.list) >= Most && e.AtMS < s.list[0].AtMS {
		s.gone++
		return false
	}
	i, _ := slices.BinarySearchFunc(s.list, e.AtMS+1, func(x Event, at int64) int { return cmp.Compare(x.AtMS, at) })
	s.list, s.by[key] = slices.Insert(s.list, i, e), e.By
	if s.count[e.By]++; len(s.list) > Most { // none can crowd out what others have noticed
		most := ""
		for sn, n := range s.count {
			if n > s.count[most] {
				most = sn
			}
		}
		s.drop(func(x *Event) bool { return x.By == most })
		s.gone++
	}
	return true
}

// drop drops the oldest event that is meant. The caller holds mu, or has the store for itself.
func (s *Store) drop(meant func(*Event) bool) {
	for i := range s.list {
		if e := &s.list[i]; meant(e) {
			s.count[e.By]--
			delete(s.by, e.key())
			s.list = slices.Delete(s.list, i, i+1)
			return
		}
	}
}

// Note keeps what this SN has noticed, once; without a time it is of now. It does not block.
func (s *Store) Note(e Event) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.AtMS == 0 {
		e.AtMS = now.UnixMilli()
	}
	e.By, e.Number = s.self, max(s.last+1, uint64(now.UnixMilli())) //nolint:gosec // it is not negative
	if e.clean(now) && s.by[e.key()] != s.self {
		s.keep(e)
	}
}

// Take keeps what another SN says that it has noticed, and returns how much of it can't be.
func (s *Store) Take(sn string, told []Event) (bad int) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range told {
		if e.By = sn; sn == s.self || !e.clean(now) || e.Number <= s.heard[sn] {
			bad++
			continue
		}
		s.keep(e)
	}
	return bad
}

// keep takes an event in, and has it written. The caller holds mu.
func (s *Store) keep(e Event) {
	if !s.add(e) {
		return
	}
	s.unwritten = append(s.unwritten, e)
	if len(s.unwritten) > Most { // the disk takes nothing
		s.unwritten, s.anew = nil, true
	}
	s.touch()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Heard is the newest number that was taken of what another SN has noticed.
func (s *Store) Heard(sn string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard[sn]
}

// Own returns what this SN has noticed itself behind a number, in the order of the numbers, so many at most.
func (s *Store) Own(after uint64, most int) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var own []Event
	for _, e := range s.list {
		if e.By == s.self && e.Number > after {
			own = append(own, e)
		}
	}
	slices.SortFunc(own, func(a, b Event) int { return cmp.Compare(a.Number, b.Number) })
	return own[:min(most, len(own))]
}

// Newest returns the newest events, newest first, so many at most, how many older ones there are or were, and a number that grows with each change.
func (s *Store) Newest(most int) (list []Event, older int, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hidden := max(0, len(s.list)-most)
	list = slices.Clone(s.list[hidden:])
	slices.Reverse(list)
	return list, s.gone + hidden, s.version
}

// Run writes until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	failed := false
	for {
		pause := flush
		select {
		case <-ctx.Done():
			_ = s.write() // it was said before if the disk takes nothing
			return nil
		case <-s.news:
		}
		err := s.write()
		if err != nil {
			pause = rest
			if !failed {
				s.log.Warn("could not keep events; it is tried again: free space on the disk of the state directory, and check that disk", "file", s.path, "err", err)
			}
			select {
			case s.news <- struct{}{}:
			default:
			}
		} else if failed {
			s.log.Info("events are kept again")
		}
		failed = err != nil
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// write writes what is new. Where that fails the whole file is written at the next try. It is Run's alone.
func (s *Store) write() error {
	s.mu.Lock()
	list, whole := s.unwritten, s.anew || s.lines+len(s.unwritten) > 2*Most
	if whole {
		if list = slices.Clone(s.list); len(list) > 0 {
			list[0].Gone = s.gone
		}
	}
	s.unwritten, s.anew = nil, false
	s.mu.Unlock()
	if s.path == "" || len(list) == 0 {
		return nil
	}
	var data []byte
	for _, e := range list {
		line, err := e.encoded()
		if err != nil {
			return err
		}
		data = append(data, line...)
	}
	var err error
	if whole {
		s.lines = 0
		err = atomicfile.ReplaceUnsynced(s.path, data, 0o600) // after a crash either file is as good
	} else {
		err = appendTo(s.path, data)
	}
	if err != nil {
		s.mu.Lock()
		s.anew = true
		s.mu.Unlock()
		return fmt.Errorf("write events: %w", err)
	}
	s.lines += len(list)
	return nil
}

// appendTo writes at the end of a file.
func appendTo(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
