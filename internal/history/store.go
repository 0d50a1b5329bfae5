package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/atomicfile"
)

// Dir is the name of the histories' directory in a node's state directory.
const Dir = "history"

// Limits bound what is kept, in bytes.
type Limits struct {
	Contract int64 // default 64 MiB
	All      int64 // default 1 GiB
}

// Store keeps the rounds of each contract's current run in a file of its own. It is safe for concurrent use.
type Store struct {
	dir    string
	limits Limits
	log    *slog.Logger

	mu    sync.Mutex
	files map[string]*runFile
}

// runFile is the file of one contract's run. Of a round the line that was written last counts.
type runFile struct {
	run   uint64
	file  *os.File
	size  int64
	lines map[uint64]extent // by round
	last  uint64            // the newest round
	live  int64             // bytes of the lines that count
}

type extent struct {
	at     int64
	length int32
}

// Open opens the histories in a directory, which is made. What a crash has cut short is cut off, and said.
func Open(dir string, limits Limits, log *slog.Logger) (*Store, error) {
	if limits.Contract == 0 {
		limits.Contract = 64 << 20
	}
	if limits.All == 0 {
		limits.All = 1 << 30
	}
	s := &Store{dir: dir, limits: limits, log: log, files: map[string]*runFile{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	for _, e := range all {
		name, run, ok := runFileNamed(e.Name())
		if !ok {
			continue // left by a write that was cut short, or not ours
		}
		if have := s.files[name]; have != nil && have.run > run {
			_ = os.Remove(filepath.Join(dir, e.Name())) // of a run before, which a crash has left
			continue
		} else if have != nil {
			s.removeLocked(name)
		}
		if err := s.openLocked(name, run); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Close closes all files.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.files {
		_ = b.file.Close() // nothing is held back
	}
	clear(s.files)
}

// fileName is the file of a contract's run.
func fileName(contract string, run uint64) string { return fmt.Sprintf("%s.%d.history", contract, run) }

// runFileNamed reads a file's name.
func runFileNamed(file string) (contract string, run uint64, ok bool) {
	name, ok := strings.CutSuffix(file, ".history")
	i := strings.LastIndexByte(name, '.')
	if !ok || i < 1 {
		return "", 0, false
	}
	run, err := strconv.ParseUint(name[i+1:], 10, 64)
	return name[:i], run, err == nil && naming.ValidContract(name[:i]) && fileName(name[:i], run) == file
}

// openLocked opens the file of a contract's run, or makes it.
func (s *Store) openLocked(contract string, run uint64) error {
	path := filepath.Join(s.dir, fileName(contract, run))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open history of contract %s: %w", contract, err)
	}
	b := &runFile{run: run, file: f, lines: map[uint64]extent{}}
	damaged, err := b.scan()
	if err == nil && damaged > 0 {
		s.log.Warn("the end of a contract's history was damaged and is cut off: rounds may be missing in its curves", "contract", contract, "run", run, "bytes", damaged)
		err = f.Truncate(b.size)
	}
	if err != nil {
		_ = f.Close() // the error before is the one that counts
		return fmt.Errorf("read history of contract %s: %w", contract, err)
	}
	s.files[contract] = b
	return nil
}

// scan reads a file, and returns how many bytes at its end are damaged.
func (b *runFile) scan() (damaged int64, err error) {
	info, err := b.file.Stat()
	if err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(b.file, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
			return info.Size() - b.size, nil
		}
		if err != nil {
			return 0, err
		}
		r, ok := readLine(line[:len(line)-1])
		if !ok {
			return info.Size() - b.size, nil
		}
		b.note(r.Round, extent{b.size, int32(len(line))}) //nolint:gosec // at most maxLine
	}
}

// note takes a line in that stands at the file's end.
func (b *runFile) note(round uint64, e extent) {
	b.live += int64(e.length) - int64(b.lines[round].length)
	b.lines[round], b.last = e, max(b.last, round)
	b.size = e.at + int64(e.length)
}

// Put writes the record of a round. A later run begins anew, an earlier one is over.
func (s *Store) Put(contract string, run uint64, r *Round) error {
	line, err := encode(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.files[contract]
	if b != nil && b.run > run {
		return nil
	}
	if b != nil && b.run < run {
		s.removeLocked(contract)
		b = nil
	}
	if b == nil {
		if err := s.openLocked(contract, run); err != nil {
			return err
		}
		b = s.files[contract]
	}
	if _, err := b.file.WriteAt(line, b.size); err != nil {
		return fmt.Errorf("write history of contract %s: %w", contract, err)
	}
	b.note(r.Round, extent{b.size, int32(len(line))}) //nolint:gosec // at most maxLine
	return s.boundLocked(contract)
}

// Remove forgets a contract.
func (s *Store) Remove(contract string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(contract)
}

func (s *Store) removeLocked(contract string) {
	b := s.files[contract]
	if b == nil {
		return
	}
	_ = b.file.Close() // nothing is held back
	if err := os.Remove(filepath.Join(s.dir, fileName(contract, b.run))); err != nil {
		s.log.Warn("could not remove the history of a contract; remove the file", "contract", contract, "err", err)
	}
	delete(s.files, contract)
}

// Contracts are those of which there is a history, by name.
func (s *Store) Contracts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.files))
}

// boundLocked keeps the files within the limits: lines that no longer count go, then every second one of the older half of the rounds.
func (s *Store) boundLocked(contract string) error {
	b := s.files[contract]
	if b.size > s.limits.Contract || b.size > 1<<20 && b.size > 4*b.live {
		if err := s.rewriteLocked(contract); err != nil {
			return err
		}
	}
	for {
		all, largest := int64(0), ""
		for name, b := range s.files {
			if all += b.size; largest == "" || b.size > s.files[largest].size {
				largest = name
			}
		}
		if all <= s.limits.All || len(s.files[largest].lines) < 4 {
			return nil
		}
		s.files[largest].thin()
		if err := s.rewriteLocked(largest); err != nil {
			return err
		}
	}
}

// whole is how many of the newest rounds none is left out of, where there is room.
const whole = 100

// thin drops every second round of the older half, and of the newest ones none while there are others.
func (b *runFile) thin() {
	rounds := slices.Sorted(maps.Keys(b.lines))
	old := len(rounds) / 2
	if others := len(rounds) - whole; others > 1 {
		old = min(old, others)
	}
	for i := 1; i < old; i += 2 {
		b.live -= int64(b.lines[rounds[i]].length)
		delete(b.lines, rounds[i])
	}
}

// rewriteLocked writes the lines that count into a new file, fewer until they take half of a contract's limit at most.
func (s *Store) rewriteLocked(contract string) (err error) {
	b := s.files[contract]
	for b.live > s.limits.Contract/2 && len(b.lines) >= 4 {
		b.thin()
	}
	path := filepath.Join(s.dir, fileName(contract, b.run))
	out, err := atomicfile.Create(path, 0o600)
	if err != nil {
		return fmt.Errorf("write history of contract %s anew: %w", contract, err)
	}
	defer out.Close()
	for _, round := range slices.Sorted(maps.Keys(b.lines)) {
		line, err := b.line(round)
		if err == nil {
			_, err = out.Write(line)
		}
		if err != nil {
			return fmt.Errorf("write history of contract %s anew: %w", contract, err)
		}
	}
	if err := out.Replace(); err != nil {
		return fmt.Errorf("write history of contract %s anew: %w", contract, err)
	}
	_ = b.file.Close() // it is replaced
	delete(s.files, contract)
	return s.openLocked(contract, b.run)
}

func (b *runFile) line(round uint64) ([]byte, error) {
	e := b.lines[round]
	line := make([]byte, e.length)
	_, err := b.file.ReadAt(line, e.at)
	return line, err
}

// Get returns the record of one round; nil: there is none.
func (s *Store) Get(contract string, run, round uint64) *Round {
	part, err := s.Read(contract, Query{After: round - 1, Most: 1})
	if err != nil || part.Run != run || len(part.Rounds) == 0 || part.Rounds[0].Round != round {
		return nil
	}
	return part.Rounds[0]
}

// Query says which rounds are asked for.
type Query struct {
	After  uint64 // rounds behind this one
	Most   int    // so many at most, 0: as many as there is room for
	Spread bool   // of all of them, evenly, and the newest 100 whole, if those are no more than half; else the first ones
}

// Part is what is known of some rounds.
type Part struct {
	Run     uint64 // 0: there is no history
	Rounds  []*Round
	Last    uint64 // the newest round that is kept
	Thinned uint64 // rounds up to the newest that are not among Rounds, of those behind Query.After
}

// maxPart bounds the bytes of one answer.
const maxPart = 3 << 20

// Read returns rounds in ascending order.
func (s *Store) Read(contract string, q Query) (Part, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.files[contract]
	if b == nil {
		return Part{}, nil
	}
	var rounds []uint64
	for round := range b.lines {
		if round > q.After {
			rounds = append(rounds, round)
		}
	}
	slices.Sort(rounds)
	most := len(rounds)
	if q.Most > 0 {
		most = min(most, q.Most)
	}
	if q.Spread && len(rounds) > 0 {
		average := max(1, b.live/int64(len(b.lines)))
		rounds = spread(rounds, min(most, max(2, int(maxPart/average))))
	} else {
		rounds = rounds[:most]
	}
	part, bytes := Part{Run: b.run, Last: b.last}, 0
	for _, round := range rounds {
		line, err := b.line(round)
		if err != nil {
			return part, fmt.Errorf("read history of contract %s: %w", contract, err)
		}
		if bytes += len(line); bytes > maxPart && len(part.Rounds) > 0 && !q.Spread {
			break
		}
		r, ok := readLine(line[:len(line)-1])
		if !ok {
			return part, fmt.Errorf("read history of contract %s: the record of round %d is damaged; remove the contract's file in %s", contract, round, s.dir)
		}
		part.Rounds = append(part.Rounds, r)
	}
	if b.last > q.After {
		part.Thinned = b.last - q.After - uint64(len(part.Rounds))
	}
	return part, nil
}

// spread takes n of some rounds: half of them, but no more than are to be whole, are the newest; the others are taken evenly.
func spread(rounds []uint64, n int) []uint64 {
	if n >= len(rounds) || n < 1 {
		return rounds
	}
	newest := min(whole, (n+1)/2)
	old, even := rounds[:len(rounds)-newest], n-newest
	out := make([]uint64, 0, n)
	for i := 1; i <= even; i++ {
		out = append(out, old[len(old)*i/even-1])
	}
	return append(out, rounds[len(old):]...)
}
