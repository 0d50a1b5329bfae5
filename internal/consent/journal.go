package consent

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/atomicfile"
)

// JournalName is the name of the journal in a host's state directory.
const JournalName = "assignments.jsonl"

// Bounds of a journal.
const (
	// MaxEntries is how many assignments it knows: at most MaxOfDomain of operators of one trust domain, and MaxOfOne of one operator, so that
	// nobody fills it for others.
	MaxEntries  = 4096
	MaxOfDomain = MaxEntries / 2
	MaxOfOne    = MaxEntries / 8

	maxLine = 128 << 10 // of the file, in bytes, the line feed counted
	maxText = 2 << 10   // of a text in an entry, in bytes; as it is encoded it may take six times as many
	// spareLines is how many lines the file has at most, beside two for each assignment, before it is written anew.
	spareLines = 1024
	// maxRead is of how many assignments a file is read: it never has more lines after a step.
	maxRead = 2*MaxEntries + spareLines
	// keepMS is how long an assignment is kept at least after it has expired: the clock may be set back.
	keepMS = 24 * 3600 * 1000
)

// Journal is the file of the assignments that a host has received. It is safe for concurrent use.
type Journal struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	file *lineFile
	all  map[string]Entry // by assignment: what the file has
}

// OpenJournal opens the journal in a host's state directory, or makes an empty one. A last line that a crash has left incomplete is cut off.
// Anything else that is not as it was written is an error: a host that has forgotten what it did could do it again. The caller closes it.
func OpenJournal(dir string, log *slog.Logger) (*Journal, error) {
	j := &Journal{path: filepath.Join(dir, JournalName), log: log}
	f, err := os.OpenFile(j.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal of assignments: %w", err)
	}
	if err := j.open(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

func (j *Journal) open(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open journal of assignments: %w", err)
	}
	all, lines, whole, err := readJournal(f)
	if err != nil {
		return fmt.Errorf("open journal of assignments: line %d of %s: %w: move the file away once you know that what it tells of has ended", lines+1, j.path, err)
	}
	if cut := info.Size() - whole; cut > 0 {
		j.log.Warn("cut off the incomplete last line of the journal of assignments, as a crash leaves one", "line", lines+1, "bytes", cut)
		if err := errors.Join(f.Truncate(whole), f.Sync()); err != nil {
			return fmt.Errorf("open journal of assignments: cut off an incomplete line: %w", err)
		}
	}
	if err := atomicfile.SyncDir(filepath.Dir(j.path)); err != nil {
		return fmt.Errorf("open journal of assignments: %w", err)
	}
	j.file, j.all = newLineFile(f, j.path, whole, lines), all
	return nil
}

// readJournal reads entries, of which the last of each assignment counts. It returns the number of whole lines, and of the bytes that they
// take: what follows is the part of a line that a crash has left.
func readJournal(r io.Reader) (all map[string]Entry, lines int, whole int64, err error) {
	all = map[string]Entry{}
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return all, lines, whole, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if _, err := in.Peek(1); errors.Is(err, io.EOF) { // nothing follows what is incomplete
				return all, lines, whole, nil
			}
			return all, lines, whole, fmt.Errorf("longer than %d bytes", maxLine)
		case err != nil:
			return all, lines, whole, err
		}
		n, holes := len(line), bytes.IndexByte(line, 0) >= 0 // before Peek takes the line away
		e, err := parseEntry(line)
		if err != nil {
			if _, more := in.Peek(1); holes && errors.Is(more, io.EOF) {
				return all, lines, whole, nil // of its blocks the last came to the disk, and others did not
			}
			return all, lines, whole, err
		}
		all[e.Assignment] = e
		if len(all) > maxRead {
			return all, lines, whole, fmt.Errorf("more than %d assignments", maxRead)
		}
		lines, whole = lines+1, whole+int64(n)
	}
}

func parseEntry(line []byte) (e Entry, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, err
	}
	if d.InputOffset() != int64(len(line))-1 {
		return e, errors.New("more than an entry")
	}
	return e, e.check()
}

// Close closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}

// Find returns what is known of an assignment.
func (j *Journal) Find(assignment string) (Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.all[assignment]
	return e, ok
}

// Received is when an assignment was received; zero: it is not known here.
func (j *Journal) Received(assignment string) (at time.Time) {
	if e, known := j.Find(assignment); known {
		at = time.UnixMilli(e.ReceivedMS)
	}
	return at
}

// begun returns the entries that have begun and not ended.
func (j *Journal) begun() (all []Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.all {
		if e.running() {
			all = append(all, e)
		}
	}
	return all
}

// put writes what has become of an assignment, which is on the disk when it returns. nowMS decides what may be forgotten if there is no room.
func (j *Journal) put(e Entry, nowMS int64) error {
	for _, s := range []*string{&e.Sentence, &e.Words} {
		*s = state.Clip(strings.ToValidUTF8(*s, "?"), maxText)
	}
	if err := e.check(); err != nil {
		return fmt.Errorf("write journal of assignments: assignment %.20s: %w", e.Assignment, err)
	}
	line, err := json.Marshal(e)
	if line = append(line, '\n'); err != nil || len(line) > maxLine {
		return fmt.Errorf("write journal of assignments: assignment %s takes %d bytes: %w", e.Assignment, len(line), err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.putLocked(&e, line, nowMS); err != nil {
		return fmt.Errorf("write journal of assignments: %w", err)
	}
	return nil
}

func (j *Journal) putLocked(e *Entry, line []byte, nowMS int64) error {
	if err := j.file.look(); err != nil {
		return err
	}
	left := j.all
	if _, known := j.all[e.Assignment]; !known {
		var err error
		if left, err = roomFor(e, j.all, nowMS); err != nil {
			return err
		}
	}
	if len(left) < len(j.all) || j.file.doubtful || j.file.lines >= 2*len(left)+spareLines {
		doubtful := j.file.doubtful
		if err := j.rewriteLocked(left); err != nil {
			return err
		}
		if doubtful {
			j.log.Warn("wrote the journal of assignments anew: its file was gone, or something could not be written to it", "path", j.path)
		}
	}
	if err := j.file.add(line); err != nil {
		return fmt.Errorf("%w: free space on its disk", err)
	}
	j.all[e.Assignment] = *e
	return nil
}

// rewriteLocked has the file hold a line for each of some assignments, and the journal them alone.
func (j *Journal) rewriteLocked(left map[string]Entry) error {
	var b bytes.Buffer
	for _, e := range slices.SortedFunc(maps.Values(left), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.ReceivedMS, b.ReceivedMS), cmp.Compare(a.Assignment, b.Assignment))
	}) {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	done, err := j.file.replace(b.Bytes(), len(left))
	if done {
		j.all = left
	}
	return err
}
