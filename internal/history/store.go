package history

import (
	"bufio"
	"cmp"
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
	"sync/atomic"
	"time"

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

// Store keeps the rounds of each contract's current run in a file of its own, and those of the run before it. It is safe for concurrent use. Who
// reads waits for nobody who writes, nor the other way round.
type Store struct {
	dir    string
	limits Limits
	log    *slog.Logger

	writing sync.Mutex // held over all that changes a file, and taken before mu

	mu      sync.Mutex // never held over the disk
	files   map[string]*runFile
	earlier map[string]*runFile // of the run before that in files, if one is kept
}

// runFile is the file of one contract's run. Of a round the line that was written last counts. With Store.writing it may be read, with
// Store.mu besides it may be changed.
type runFile struct {
	run   uint64
	file  *openFile
	size  int64
	lines []line // those that count, by round
	live  int64  // their bytes
	asked uint64 // up to which round other SNs were asked

	committedMS int64 // when the last one was committed; 0: not known
}

// openFile is open for as long as it has users, of which its runFile is one. Store.mu guards users and unread.
type openFile struct {
	*os.File

	users   int
	unread  map[uint64]refusals // rounds that the disk does not give out
	damaged atomic.Bool         // it has lines that are to be left out when it is written anew
}

// refusals are the times at which a disk has first and last not given a round out, without success between them.
type refusals struct{ first, last time.Time }

// line says where the record of a round stands.
type line struct {
	round  uint64
	at     int64
	length int32
	partly bool // it is this SN's own, and the ledger has more to say
}

// release ends the use of a file.
func (s *Store) release(f *openFile) {
	s.mu.Lock()
	f.users--
	last := f.users == 0
	s.mu.Unlock()
	if last {
		_ = f.Close() // nothing is held back
	}
}

// Open opens the histories in a directory, which is made. What a crash has cut short is cut off, and said.
func Open(dir string, limits Limits, log *slog.Logger) (*Store, error) {
	if limits.Contract == 0 {
		limits.Contract = 64 << 20
	}
	if limits.All == 0 {
		limits.All = 1 << 30
	}
	s := &Store{dir: dir, limits: limits, log: log, files: map[string]*runFile{}, earlier: map[string]*runFile{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	if err := atomicfile.Sweep(dir, 0); err != nil {
		log.Warn("could not remove what a crash has left in the directory of histories; remove its files .new-*", "dir", dir, "err", err)
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	runs := map[string][]uint64{}
	for _, e := range all {
		if name, run, ok := runFileNamed(e.Name()); ok { // else it is not ours
			runs[name] = append(runs[name], run)
		}
	}
	for name, of := range runs {
		slices.SortFunc(of, func(a, b uint64) int { return cmp.Compare(b, a) })
		for i, run := range of {
			if i > 1 {
				_ = os.Remove(filepath.Join(dir, fileName(name, run))) // which a crash has left
				continue
			}
			b, err := s.open(name, run)
			if err != nil {
				s.Close()
				return nil, err
			}
			[]map[string]*runFile{s.files, s.earlier}[i][name] = b
		}
	}
	return s, nil
}

// Close closes all files.
func (s *Store) Close() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	all := slices.AppendSeq(slices.Collect(maps.Values(s.files)), maps.Values(s.earlier))
	clear(s.files)
	clear(s.earlier)
	s.mu.Unlock()
	for _, b := range all {
		s.release(b.file)
	}
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

// open opens the file of a contract's run, or makes it.
func (s *Store) open(contract string, run uint64) (*runFile, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, fileName(contract, run)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open history of contract %s: %w", contract, err)
	}
	b := &runFile{run: run, file: &openFile{File: f, users: 1}}
	bad, end, err := b.scan()
	b.file.damaged.Store(bad > 0)
	if bad > 0 || end > 0 {
		s.log.Warn("a contract's history was damaged: rounds may be missing in its curves", "contract", contract, "run", run, "lines_left_out", bad, "bytes_cut_off", end)
	}
	if err == nil && end > 0 {
		err = f.Truncate(b.size)
	}
	if err != nil {
		_ = f.Close() // the error before is the one that counts
		return nil, fmt.Errorf("read history of contract %s: %w", contract, err)
	}
	return b, nil
}

// scan reads a file, and returns how many lines are damaged, and how many bytes at its end are no line.
func (b *runFile) scan() (bad int, end int64, err error) {
	in := bufio.NewReaderSize(b.file, maxLine)
	for at := int64(0); ; b.size = at {
		data, err := in.ReadSlice('\n')
		at += int64(len(data))
		long := false
		for errors.Is(err, bufio.ErrBufferFull) {
			long = true
			data, err = in.ReadSlice('\n')
			at += int64(len(data))
		}
		if errors.Is(err, io.EOF) {
			return bad, at - b.size, nil
		}
		if err != nil {
			return bad, 0, err
		}
		r, ok := readLine(data[:len(data)-1])
		if long || !ok {
			bad++
			continue
		}
		b.note(line{r.Round, b.size, int32(len(data)), r.Own && !r.whole()}) //nolint:gosec // at most maxLine
		b.asked, b.committedMS = max(b.asked, r.Asked), max(b.committedMS, r.CommittedMS)
	}
}

// find returns where a round's line is, or would be.
func (b *runFile) find(round uint64) (i int, found bool) {
	return slices.BinarySearchFunc(b.lines, round, func(l line, round uint64) int { return cmp.Compare(l.round, round) })
}

// note takes a line in.
func (b *runFile) note(l line) {
	i, found := b.find(l.round)
	if found {
		b.live -= int64(b.lines[i].length)
		b.lines[i] = l
	} else {
		b.lines = slices.Insert(b.lines, i, l)
	}
	b.live += int64(l.length)
}

// last is the newest round.
func (b *runFile) last() uint64 {
	if len(b.lines) == 0 {
		return 0
	}
	return b.lines[len(b.lines)-1].round
}

// Put writes the record of a round. A later run begins anew, and one before it is over: the last one of these is kept, for who asks for it. Nothing
// is written beyond the limits: where the file can't be written anew with fewer rounds, Put fails.
func (s *Store) Put(contract string, run uint64, r *Round) error {
	data, err := encode(r)
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	b := s.files[contract]
	if over := s.earlier[contract]; b != nil && b.run > run || over != nil && over.run >= run {
		return nil
	}
	if b != nil && b.run < run {
		s.end(contract)
		b = nil
	}
	if b == nil {
		if b, err = s.open(contract, run); err != nil {
			return err
		}
		s.mu.Lock()
		s.files[contract] = b
		s.mu.Unlock()
	}
	if err := s.makeRoom(contract, int64(len(data))); err != nil {
		return err
	}
	if _, err := b.file.WriteAt(data, b.size); err != nil {
		return fmt.Errorf("write history of contract %s: %w", contract, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.note(line{r.Round, b.size, int32(len(data)), r.Own && !r.whole()}) //nolint:gosec // at most maxLine
	b.size += int64(len(data))
	b.asked, b.committedMS = max(b.asked, r.Asked), max(b.committedMS, r.CommittedMS)
	return nil
}

// Whole returns the run that is kept of a contract, and the round up to which none is missing: among the newest, as older ones are thinned.
func (s *Store) Whole(contract string) (run, round uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.files[contract]
	if b == nil || len(b.lines) == 0 {
		return 0, 0
	}
	newest := b.lines[max(0, len(b.lines)-whole):]
	for i, l := range newest[1:] {
		if l.round != newest[i].round+1 {
			return b.run, newest[i].round
		}
	}
	return b.run, b.last()
}

// Unproven returns the first of the newest rounds of a run of which the ledger has more to say than is kept: it was written by an older version, or
// just before a crash. 0: there is none.
func (s *Store) Unproven(contract string, run uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.files[contract]
	if b == nil || b.run != run {
		return 0
	}
	for _, l := range b.lines[max(0, len(b.lines)-whole):] {
		if l.partly {
			return l.round
		}
	}
	return 0
}

// Asked returns up to which round other SNs were asked for a contract's run, as far as its records say.
func (s *Store) Asked(contract string, run uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.files[contract]; b != nil && b.run == run {
		return b.asked
	}
	return 0
}

// makeRoom keeps the files within the limits: lines that no longer count go, then every second one of the older half of the rounds.
func (s *Store) makeRoom(contract string, more int64) error {
	b, before := s.files[contract], int64(0)
	if over := s.earlier[contract]; over != nil {
		before = over.size
	}
	if b.file.damaged.Load() || b.size+more > s.limits.Contract-before || b.size > 1<<20 && b.size > 4*b.live {
		if err := s.rewrite(contract, b, b.lines, s.limits.Contract/2); err != nil {
			return err
		}
	}
	for {
		all, over := sizes(s.earlier)
		now, largest := sizes(s.files)
		switch all += now + more; {
		case all <= s.limits.All:
			return nil
		case over != "": // what is over gives room first
			s.drop(s.earlier, over)
			continue
		case len(s.files[largest].lines) < 4:
			return nil
		}
		if err := s.rewrite(largest, s.files[largest], thin(s.files[largest].lines), s.limits.Contract/2); err != nil {
			return err
		}
	}
}

// whole is how many of the newest rounds none is left out of, where there is room.
const whole = 100

// thin returns lines without every second one of the older half, and of the newest ones without none while there are others.
func thin(lines []line) []line {
	old := len(lines) / 2
	if others := len(lines) - whole; others > 1 {
		old = min(old, others)
	}
	out := make([]line, 0, len(lines)-old/2)
	for i, l := range lines {
		if i >= old || i%2 == 0 {
			out = append(out, l)
		}
	}
	return out
}

// bytesOf are the bytes of lines.
func bytesOf(lines []line) (n int64) {
	for _, l := range lines {
		n += int64(l.length)
	}
	return n
}

// rewrite writes lines of a contract's file into a new one, fewer until they take so many bytes at most. Where that fails all is as before.
func (s *Store) rewrite(contract string, b *runFile, lines []line, most int64) error {
	for bytesOf(lines) > most && len(lines) >= 4 {
		lines = thin(lines)
	}
	out, err := atomicfile.Create(filepath.Join(s.dir, fileName(contract, b.run)), 0o600)
	if err != nil {
		return fmt.Errorf("write history of contract %s anew: %w", contract, err)
	}
	next := &runFile{run: b.run, file: &openFile{File: out.File, users: 1}, asked: b.asked, committedMS: b.committedMS}
	in := bufio.NewWriterSize(out, maxLine)
	lost := 0
	var failed error
	for _, l := range lines {
		data := make([]byte, l.length)
		gone, err := s.read(b.file, data, l)
		if err != nil && !gone {
			failed = err
			continue
		}
		if gone || !intact(data[:len(data)-1]) {
			lost++ // with or without a new file
			continue
		}
		if _, err = in.Write(data); err != nil {
			failed = err
			break
		}
		next.note(line{l.round, next.size, l.length, l.partly})
		next.size += int64(l.length)
	}
	if err = errors.Join(failed, in.Flush()); err == nil {
		err = out.Sync()
	}
	if err == nil {
		err = out.ReplaceUnsynced() // after a crash either file is as good
	}
	if err != nil {
		_ = out.Close() // which removes it; the error before is the one that counts
		return fmt.Errorf("write history of contract %s anew: %w", contract, err)
	}
	if lost > 0 {
		s.log.Warn("records of a contract's history could not be read: rounds are missing in its curves; check the disk", "contract", contract, "rounds", lost)
	}
	s.mu.Lock()
	before := b.file
	*b = *next
	s.mu.Unlock()
	s.release(before)
	return nil
}

const (
	// unreadFor is for how long a disk may refuse to give a record out, each time that it is asked, until it counts as lost.
	unreadFor = 10 * time.Minute
	// unasked is for how long a disk may not be asked meanwhile: after that its refusals count from the next one on.
	unasked = 3 * time.Minute
)

// read reads a line. An error may pass; gone: there is nothing to wait for.
func (s *Store) read(f *openFile, data []byte, l line) (gone bool, err error) {
	_, err = f.ReadAt(data, l.at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || errors.Is(err, io.EOF) {
		delete(f.unread, l.round)
		return err != nil, nil
	}
	if f.unread == nil {
		f.unread = map[uint64]refusals{}
	}
	now, was := time.Now(), f.unread[l.round]
	if now.Sub(was.last) > unasked {
		was.first = now
	}
	was.last = now
	f.unread[l.round] = was
	return now.Sub(was.first) > unreadFor, err
}

// Get returns the record of one round; nil without an error: there is none, or it is damaged.
func (s *Store) Get(contract string, run, round uint64) (*Round, error) {
	s.mu.Lock()
	b := s.files[contract]
	if b == nil || b.run != run {
		s.mu.Unlock()
		return nil, nil //nolint:nilnil // there is none
	}
	i, found := b.find(round)
	if !found {
		s.mu.Unlock()
		return nil, nil //nolint:nilnil // likewise
	}
	l, file := b.lines[i], b.file
	file.users++
	s.mu.Unlock()
	defer s.release(file)
	r, _, err := s.record(contract, file, l)
	return r, err
}

// record reads one record of a file; nil: it is damaged, and is left out when the file is written anew.
func (s *Store) record(contract string, file *openFile, l line) (r *Round, n int, err error) {
	data := make([]byte, l.length)
	gone, err := s.read(file, data, l)
	if err != nil && !gone {
		return nil, 0, fmt.Errorf("read history of contract %s: %w", contract, err)
	}
	if r, ok := readLine(data[:len(data)-1]); ok && r.Round == l.round {
		return r, len(data), nil
	}
	if !file.damaged.Swap(true) {
		s.log.Warn("a round's record was damaged: it is missing in the contract's curves; check the disk", "contract", contract, "round", l.round)
	}
	return nil, 0, nil
}

// Query says which rounds are asked for.
type Query struct {
	Run    uint64 // 0: the last one
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

// pick returns where rounds stand, in a file that the caller releases; nil: there is none.
func (s *Store) pick(contract string, q Query) (part Part, file *openFile, lines []line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.files[contract]
	if over := s.earlier[contract]; q.Run > 0 && over != nil && over.run == q.Run {
		b = over
	}
	if b == nil || q.Run > 0 && b.run != q.Run {
		return Part{}, nil, nil
	}
	from, found := b.find(q.After)
	if found {
		from++
	}
	lines = b.lines[from:]
	most := len(lines)
	if q.Most > 0 {
		most = min(most, q.Most)
	}
	if q.Spread && len(lines) > 0 {
		average := max(1, b.live/int64(len(b.lines)))
		lines = spread(lines, min(most, max(2, int(maxPart/average))))
	} else {
		lines = lines[:most]
	}
	b.file.users++
	return Part{Run: b.run, Last: b.last()}, b.file, slices.Clone(lines)
}

// Read returns rounds in ascending order.
func (s *Store) Read(contract string, q Query) (Part, error) {
	part, file, lines := s.pick(contract, q)
	if file == nil {
		return part, nil
	}
	defer s.release(file)
	all := 0
	for _, l := range lines {
		r, n, err := s.record(contract, file, l)
		if err != nil {
			return part, err
		}
		if all += n; all > maxPart && len(part.Rounds) > 0 && !q.Spread {
			break
		}
		if r != nil {
			part.Rounds = append(part.Rounds, r)
		}
	}
	if part.Last > q.After {
		part.Thinned = part.Last - q.After - uint64(len(part.Rounds))
	}
	return part, nil
}

// spread takes n of some lines: half of them, but no more than are to be whole, are the newest; the others are taken evenly.
func spread(lines []line, n int) []line {
	if n >= len(lines) || n < 1 {
		return lines
	}
	newest := min(whole, (n+1)/2)
	old, even := lines[:len(lines)-newest], n-newest
	out := make([]line, 0, n)
	for i := 1; i <= even; i++ {
		out = append(out, old[len(old)*i/even-1])
	}
	return append(out, lines[len(old):]...)
}
