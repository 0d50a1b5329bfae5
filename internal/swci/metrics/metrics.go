// Package metrics reads the JSON lines that a training program appends to SWARM_METRICS_FILE.
//
// The file is written by a program that the user chose and is read while it grows: lines may be half written, wrong or
// absurd. Whatever is not a well-formed event is skipped and counted, never trusted and never fatal.
package metrics

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"syscall"

	"github.com/swarmd/swarmd/internal/text"
)

// Kinds of events.
const (
	Start = "start" // training begins
	Epoch = "epoch" // a local epoch ended
	Merge = "merge" // a round's model was loaded
	End   = "end"   // training ended; the final model is loaded
)

const (
	maxLine     = 64 << 10 // bytes of one line
	maxRead     = 8 << 20  // bytes taken from the file in one call of Next
	maxEvents   = 200_000  // events that ReadFile keeps
	maxNumber   = 1 << 31  // bound of counters
	maxNames    = 4096     // participants of one round
	maxName     = 128      // bytes of a participant's or the metric's name, or of a version
	maxVersions = 16
)

// Event is one line. Which fields are set depends on Kind; Loss and Metric are nil when they were not measured.
type Event struct {
	Kind         string   `json:"event"`
	TS           float64  `json:"ts"` // Unix seconds
	Loopback     bool     `json:"loopback"`
	TotalEpochs  int64    `json:"total_epochs"`
	Epoch        int64    `json:"epoch"`
	Round        int64    `json:"round"`
	Rounds       int64    `json:"rounds"`
	Loss         *float64 `json:"loss"`
	Metric       *float64 `json:"metric"`
	MetricName   string   `json:"metric_name"` // empty when the program does not tell it
	Participants []string `json:"participants"`
	Seconds      float64  `json:"seconds"`
	Contributed  bool     `json:"contributed"`
	ModelSHA256  string   `json:"model_sha256"` // hex; empty when unknown
	Digest       string   `json:"digest"`       // the swarm's of the final model, hex; empty when unknown

	DataSamples   int64             `json:"data_samples"`   // of one pass through the program's data; 0 when not known
	SyncFrequency int64             `json:"sync_frequency"` // batches; 0 when the program does not tell it
	Versions      map[string]string `json:"versions"`       // by what the program uses: python, torch, …
}

// Parse reads one line.
func Parse(line []byte) (Event, error) {
	if len(line) > maxLine {
		return Event{}, fmt.Errorf("parse metrics line: longer than %d bytes", maxLine)
	}
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("parse metrics line: %w", err)
	}
	switch e.Kind {
	case Start, Epoch, Merge, End:
	default:
		return Event{}, fmt.Errorf("parse metrics line: unknown event %.32q", e.Kind)
	}
	for _, n := range []int64{e.TotalEpochs, e.Epoch, e.Round, e.Rounds, e.SyncFrequency, e.DataSamples} {
		if n < 0 || n > maxNumber {
			return Event{}, fmt.Errorf("parse metrics line: counter %d is out of range", n)
		}
	}
	if len(e.Participants) > maxNames {
		return Event{}, errors.New("parse metrics line: too many participants")
	}
	for _, p := range e.Participants {
		if p == "" || len(p) > maxName {
			return Event{}, errors.New("parse metrics line: bad participant name")
		}
	}
	if len(e.MetricName) > maxName || !text.Visible(e.MetricName) {
		e.MetricName = "" // a metric without a name is one still
	}
	if !digest(e.ModelSHA256) || !digest(e.Digest) {
		return Event{}, errors.New("parse metrics line: model_sha256 or digest is none in hex")
	}
	if len(e.Versions) > maxVersions {
		e.Versions = nil
	}
	maps.DeleteFunc(e.Versions, func(name, version string) bool {
		return len(name) > maxName || len(version) > maxName || !text.Visible(name) || !text.Visible(version)
	})
	if e.Seconds < 0 || math.Abs(e.TS) > 1e12 {
		return Event{}, errors.New("parse metrics line: time is out of range")
	}
	return e, nil
}

// digest reports whether s is 32 bytes in hex, or empty.
func digest(s string) bool {
	raw, err := hex.DecodeString(s)
	return s == "" || err == nil && len(raw) == 32
}

// Tail follows one growing file. It is not safe for concurrent use. The zero Tail with a path is ready.
type Tail struct {
	Path    string
	Skipped int // lines that were no events

	offset  int64
	partial []byte
	drop    bool // inside a line that is too long
}

// Next returns the events of the lines completed since the last call. A file that does not exist yet has none; one that
// became shorter is read anew from its start.
func (t *Tail) Next() ([]Event, error) {
	// Not Open: the program may have put a pipe there, which would block until somebody writes.
	f, err := os.OpenFile(t.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open metrics: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("stat metrics: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read metrics: %s is no regular file", t.Path)
	}
	if info.Size() < t.offset {
		t.offset, t.partial, t.drop = 0, nil, false
	}
	data, err := io.ReadAll(io.NewSectionReader(f, t.offset, maxRead))
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	t.offset += int64(len(data))
	return t.feed(data), nil
}

// feed cuts data into lines, keeping an unfinished one for the next call.
func (t *Tail) feed(data []byte) []Event {
	var out []Event
	for len(data) > 0 {
		head, rest, complete := bytes.Cut(data, []byte{'\n'})
		data = rest
		if !t.drop && len(t.partial)+len(head) > maxLine {
			t.drop, t.partial = true, nil
		}
		if !t.drop {
			t.partial = append(t.partial, head...)
		}
		if !complete {
			break
		}
		if line := bytes.TrimSpace(t.partial); len(line) > 0 || t.drop {
			if e, err := Parse(line); err == nil && !t.drop {
				out = append(out, e)
			} else {
				t.Skipped++
			}
		}
		t.partial, t.drop = t.partial[:0], false
	}
	return out
}

// ReadFile returns all events of a file that is complete, in order, and how many lines were skipped. A missing file has
// no events. Reading stops at a bound that no honest training reaches.
func ReadFile(path string) (events []Event, skipped int, err error) {
	t := Tail{Path: path}
	for len(events) < maxEvents {
		before := t.offset
		more, err := t.Next()
		if err != nil {
			return nil, 0, err
		}
		events = append(events, more...)
		if t.offset == before {
			break
		}
	}
	return events, t.Skipped, nil
}
