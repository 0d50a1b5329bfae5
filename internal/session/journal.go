package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

const (
	recordVersion = 1
	maxRecord     = 8 << 20 // bytes; the layout is most of it
)

// Journal keeps in one file what a later run of the daemon needs to adopt an ML program that lives on without it: see
// Record. The file is replaced in one step, so it outlives the daemon's death at any moment; it is not synced, since a machine
// that dies takes the program along. Safe for concurrent use.
type Journal struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	rec     Record
	written []byte // what the file holds, nil if there is none
	failing bool
}

// OpenJournal reads what a previous run left at path. A file that can't be used is as good as none, and said in the log.
func OpenJournal(path string, log *slog.Logger) *Journal {
	j := &Journal{path: path, log: log}
	rec, err := readRecord(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("the record of this node's previous run can't be used; its program is not adopted", "file", path, "err", err)
		}
		return j
	}
	j.rec = rec
	return j
}

func readRecord(path string) (Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return Record{}, err
	}
	if len(b) > maxRecord {
		return Record{}, fmt.Errorf("it is longer than %d bytes", maxRecord)
	}
	return ParseRecord(b)
}

// Record returns what is kept now; the zero Record if nothing is.
func (j *Journal) Record() Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rec
}

// Begin notes that a program is about to be started in this isolation, by itself or as the first of several ranks, and forgets everything about an earlier one.
func (j *Journal) Begin(incarnation, program, isolation string, ranks bool) {
	j.put(func(r *Record) {
		*r = Record{Version: recordVersion, Incarnation: incarnation, Program: program, Isolation: isolation, Ranks: ranks}
	})
}

// End notes that the program has ended and nothing of it is left.
func (j *Journal) End(exitCode int) {
	j.put(func(r *Record) { r.Incarnation, r.Exit = "", &exitCode })
}

// Forget removes the record.
func (j *Journal) Forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rec, j.written = Record{}, nil
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.log.Warn("could not remove the record of this node's session", "file", j.path, "err", err)
	}
}

// session notes how the session stands.
func (j *Journal) session(s *Saved) {
	if j != nil {
		j.put(func(r *Record) { r.Version, r.Session = recordVersion, s })
	}
}

func (j *Journal) put(change func(r *Record)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.rec)
	b, err := json.Marshal(j.rec)
	if err == nil && bytes.Equal(b, j.written) {
		return
	}
	if err == nil {
		err = atomicfile.ReplaceUnsynced(j.path, b, 0o600) // the program does not outlive the machine
	}
	if err == nil {
		j.written, j.failing = b, false
		return
	}
	// A record that lags would make a later run ask the program for what it has given: better none.
	_ = os.Remove(j.path)
	if j.written = nil; !j.failing {
		j.failing = true
		j.log.Error("could not keep the record of this node's session; should the daemon die now, its program ends with it", "file", j.path, "err", err)
	}
}
