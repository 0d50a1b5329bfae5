package session

import (
	"bytes"
	"io"
	"math"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/text"
)

// Counts are what a program tells of its training since its last Sync. The zero value: it does not count.
type Counts struct {
	Known       bool
	Batches     uint64
	Samples     uint64 // 0: not known
	DataSamples uint64 // in one pass through the program's data; 0: not known
}

// training is what is known of a program's training, and whether it changed anything.
type training struct {
	s      *session
	given  Counts        // with the call of the program that is being answered
	told   round.Trained // of all contributions that were compared, or could not be
	warned warned        // what the program is told

	busy bool // one is being compared: its Sync is not answered yet, nor what a closed session left offered
}

// Count takes what a program tells along with its next Sync or Close.
func (e *Engine) Count(id string, c Counts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.current; s != nil && s.id == id {
		s.program.training.given = c
	}
}

// contributesLocked counts what the program hands in with a Sync, or leaves at its close, and has it compared with the model that it was
// given last: beside the merge, which takes longer. What was trained comes with it.
func (t *training) contributesLocked(seq uint64, ended bool) {
	s, c := t.s, t.given
	next := t.told
	next.Seq, next.Ended, next.Counted, next.Batches, next.Samples = seq, ended, c.Known, c.Batches, c.Samples
	next.TotalBatches += c.Batches
	if next.TotalSamples += c.Samples; c.Samples == 0 && c.Batches > 0 || t.told.TotalSamples == 0 && t.told.TotalBatches > 0 {
		next.TotalSamples = 0 // a part of it is not known
	}
	if c.DataSamples > 0 {
		next.DataSamples = c.DataSamples
	}
	if !s.model.held.Exists() || s.model.base != s.model.held || s.model.slots == nil {
		t.told = next
		return
	}
	t.busy = true
	base, local, committed, size := s.model.base, s.model.slots.Local(), s.model.slots.Committed(), s.model.form.Layout.Bytes()
	e := s.engine
	s.lifecycle.spawnLocked(func() {
		same, err := sameModel(local, committed, size)
		e.mu.Lock()
		defer e.mu.Unlock()
		switch {
		case err != nil: // what reads the weight files next says so
		case !same:
			next.Changed, next.Unchanged, next.UnchangedSince = next.Changed+1, 0, 0
		case c.Known && c.Batches == 0: // nothing could have changed
		case ended && !c.Known && next.Changed > 0: // it may have closed right after a merge
		default:
			if next.Unchanged++; next.Unchanged == 1 {
				next.UnchangedSince = base.Round
			}
		}
		t.told, t.busy = next, false
		s.lifecycle.notifyLocked()
		e.poke()
	})
}

// reportedLocked is what the leader is told; nil before anything was trained.
func (t *training) reportedLocked() *round.Trained {
	if !t.s.engine.reporter.takesTrained || t.told.Seq < 2 && !t.told.Ended {
		return nil
	}
	told := t.told
	return &told
}

// Lengths of what is compared at a time, in bytes.
const (
	probes    = 16 // spread over the model, before all of it: most often the first one differs
	probeSize = 4 << 10
	chunkSize = 256 << 10
)

// sameModel reports whether two weight files begin with the same n bytes. It reads little unless they do.
func sameModel(a, b io.ReaderAt, n int64) (bool, error) {
	buf := make([]byte, 2*min(n, probeSize))
	same := func(from, length int64) (bool, error) {
		x, y := buf[:length], buf[len(buf)/2:][:length]
		for _, r := range []struct {
			io.ReaderAt
			p []byte
		}{{a, x}, {b, y}} {
			if k, err := r.ReadAt(r.p, from); int64(k) < length {
				return false, err
			}
		}
		return bytes.Equal(x, y), nil
	}
	for i := range int64(probes) {
		length := min(n, probeSize)
		if ok, err := same(int64(float64(n-length)*float64(i)/(probes-1)), length); !ok {
			return false, err
		}
	}
	buf = make([]byte, 2*min(n, chunkSize))
	for from := int64(0); from < n; from += chunkSize {
		if ok, err := same(from, min(n-from, chunkSize)); !ok {
			return false, err
		}
	}
	return true, nil
}

// atTheEnd is the number under which warnings are given that come with the final model.
const atTheEnd = math.MaxUint64

// warned is what a session's program is told of what is probably wrong.
type warned struct {
	texts []string
	at    map[string]uint64 // with which answer each was given first
}

// Bounds of what an SN can have said to a program.
const (
	maxWarnings    = 256
	maxWarningText = 1 << 10 // bytes
)

// take keeps warnings, and returns those that are new.
func (w *warned) take(texts []string) (news []string) {
	for _, said := range texts {
		said = text.Printable(text.Cut(said, maxWarningText), ' ')
		if _, known := w.at[said]; known || len(w.texts) >= maxWarnings {
			continue
		}
		if w.at == nil {
			w.at = map[string]uint64{}
		}
		w.at[said], w.texts, news = 0, append(w.texts, said), append(news, said)
	}
	return news
}

// with returns those that go with an answer: each goes once, and again when that answer is asked for again.
func (w *warned) with(seq uint64) (out []string) {
	for _, said := range w.texts {
		if w.at[said] == 0 {
			w.at[said] = seq
		}
		if w.at[said] == seq {
			out = append(out, said)
		}
	}
	return out
}

// Warnings returns what is to be said to a session's program with the answer to a Sync, or, ended, with the final model.
func (e *Engine) Warnings(id string, seq uint64, ended bool) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.current
	if s == nil || s.id != id {
		return nil
	}
	if ended {
		seq = atTheEnd
	}
	return s.program.training.warned.with(seq)
}

// maxDigest bounds a digest that an SN gives and reports repeat, in bytes: twice that of 64 hexadecimal digits.
const maxDigest = 128

// warnedLocked takes the warnings in the answer to a report.
func (rp *reporter) warnedLocked(a round.Answer) {
	s, digest := rp.e.current, a.WarningsDigest
	if len(digest) > maxDigest {
		digest = "" // SNs that tell the truth would take no report that repeats it
	}
	if rp.takesTrained = a.TakesTrained; s == nil || digest == rp.warningsSeen {
		return
	}
	rp.warningsSeen = digest
	for _, w := range a.Warnings {
		if w.Session != s.id {
			continue
		}
		for _, said := range s.program.training.warned.take(w.Texts) {
			rp.e.cfg.Log.Warn("training may be in vain", "contract", s.contract, "warning", said)
		}
	}
}
