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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/policy"
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
	// keepMS is how long an assignment is kept at least after it has expired: the clock may be set back.
	keepMS = 24 * 3600 * 1000
)

// Decision is what a host has decided on an assignment.
type Decision string

// The decisions.
const (
	Allowed  Decision = "allowed"
	Asked    Decision = "asked" // not yet: somebody is to approve it
	Refused  Decision = "refused"
	Approved Decision = "approved" // after it was asked
)

// Entry is what a host has had to do with an assignment. Times are Unix milliseconds by the host's clock; 0: it did not happen.
type Entry struct {
	Assignment string `json:"assignment"`
	Order      string `json:"order"` // hex SHA-256 of all that was signed
	By         string `json:"by"`    // SPIFFE ID of who asked, as proven when it was received
	Task       string `json:"task"`
	Digest     string `json:"digest"` // of the task
	Taskrunner string `json:"taskrunner,omitempty"`
	ReceivedMS int64  `json:"received_ms"`
	ExpiresMS  int64  `json:"expires_ms"`

	Decision  Decision `json:"decision"`
	Sentence  string   `json:"sentence,omitempty"` // of the owner's policy, or the approver's reason
	Approver  string   `json:"approver,omitempty"` // SPIFFE ID of who approved or refused it; empty: the policy alone
	DecidedMS int64    `json:"decided_ms"`
	// Image is the one that the decision is about; nil: the task has none. It does not change once it is known.
	Image *policy.Image `json:"image,omitempty"`

	Epoch   uint32 `json:"epoch,omitempty"` // the last one that was begun; 0: none
	BeganMS int64  `json:"began_ms,omitempty"`
	EndedMS int64  `json:"ended_ms,omitempty"` // of that epoch
	Words   string `json:"words,omitempty"`    // how it ended
}

// check holds an entry to its bounds, and its steps to their order.
func (e *Entry) check() error {
	for _, s := range []string{e.Order, e.By, e.Task, e.Digest, e.Taskrunner, e.Sentence, e.Approver, e.Words} {
		if len(s) > maxText || !utf8.ValidString(s) {
			return errors.New("a text is out of bounds")
		}
	}
	switch {
	case !task.ValidID(e.Assignment):
		return errors.New("its assignment has no ID")
	case e.Order == "" || e.By == "" || e.Task == "" || e.Digest == "" || e.ReceivedMS <= 0 || e.ExpiresMS <= 0 || e.DecidedMS <= 0:
		return errors.New("it lacks what every entry has")
	case !slices.Contains([]Decision{Allowed, Asked, Refused, Approved}, e.Decision), e.Decision == Approved && e.Approver == "":
		return fmt.Errorf("decision %.20q, without an approver", e.Decision)
	case (e.Epoch == 0) != (e.BeganMS == 0) || e.BeganMS < 0 || e.EndedMS < 0 || e.EndedMS > 0 && e.BeganMS == 0:
		return errors.New("it has ended or begun out of order")
	case e.Image != nil:
		return e.Image.Check()
	}
	return nil
}

// knowsImage reports whether its image was found. One that could not be told is looked for again with the next decision, but not while
// somebody is asked.
func (e *Entry) knowsImage() bool {
	return e.Image != nil && (e.Image.Unknown == "" || e.Decision == Asked)
}

// imageText is its image in words; empty: it has none.
func (e *Entry) imageText() string {
	if e.Image == nil {
		return ""
	}
	return "image " + e.Image.String()
}

// decided notes a decision, if it is another one.
func (e *Entry) decided(d Decision, approver, sentence string, now time.Time) {
	if e.Decision != d || e.Approver != approver || e.Sentence != sentence {
		e.Decision, e.Approver, e.Sentence, e.DecidedMS = d, approver, sentence, now.UnixMilli()
	}
}

// begin notes that an epoch begins.
func (e *Entry) begin(epoch uint32, now time.Time) {
	e.Epoch, e.BeganMS, e.EndedMS, e.Words = epoch, now.UnixMilli(), 0, ""
}

// running reports whether its epoch was begun and has not ended.
func (e *Entry) running() bool { return e.BeganMS > 0 && e.EndedMS == 0 }

// Journal is the file of the assignments that a host has received. It is safe for concurrent use.
type Journal struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex
	file  *os.File
	size  int64
	lines int
	all   map[string]Entry // by assignment
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
	j.file, j.size, j.lines, j.all = f, whole, lines, all
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
		e, err := parseEntry(line)
		if err != nil {
			return all, lines, whole, err
		}
		all[e.Assignment] = e
		if len(all) > MaxEntries {
			return all, lines, whole, fmt.Errorf("more than %d assignments", MaxEntries)
		}
		lines, whole = lines+1, whole+int64(len(line))
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
	if _, known := j.all[e.Assignment]; !known {
		if err := j.makeRoomLocked(&e, nowMS); err != nil {
			return err
		}
	}
	if j.lines >= 2*len(j.all)+spareLines {
		if err := j.rewriteLocked(); err != nil {
			return err
		}
	}
	if _, err = j.file.WriteAt(line, j.size); err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		// What was written of it is cut off now if it can be, else at the next start.
		return fmt.Errorf("write journal of assignments: %w: free space on its disk", errors.Join(err, j.file.Truncate(j.size)))
	}
	j.size, j.lines = j.size+int64(len(line)), j.lines+1
	j.all[e.Assignment] = e
	return nil
}

// rewriteLocked has the file hold a line for each assignment.
func (j *Journal) rewriteLocked() error {
	var all []Entry
	for _, e := range j.all {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.ReceivedMS, b.ReceivedMS), cmp.Compare(a.Assignment, b.Assignment))
	})
	var b bytes.Buffer
	for _, e := range all {
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("write journal of assignments: %w", err)
		}
		b.Write(append(line, '\n'))
	}
	if err := atomicfile.Replace(j.path, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write journal of assignments: %w", err)
	}
	f, err := os.OpenFile(j.path, os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("write journal of assignments: %w", err)
	}
	_ = j.file.Close() // the old file has no name any more
	j.file, j.size, j.lines = f, int64(b.Len()), len(all)
	return nil
}
