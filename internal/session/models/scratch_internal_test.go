package models

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// flat is a weight file in memory.
type flat struct{ b []byte }

func (f *flat) ReadAt(p []byte, off int64) (int, error)  { return copy(p, f.b[off:]), nil }
func (f *flat) WriteAt(p []byte, off int64) (int, error) { return copy(f.b[off:], p), nil }

// pair are weight files that take turns.
type pair struct {
	files  [2]flat
	turn   int
	note   string
	closed bool
}

func (p *pair) Local() Slot       { return nil }
func (p *pair) LocalName() string { return "local" }
func (p *pair) Merging() Slot     { return &p.files[p.turn] }
func (p *pair) Committed() Slot   { return &p.files[1-p.turn] }
func (p *pair) Merged(n string)   { p.note = n }
func (p *pair) Commit() string    { p.turn = 1 - p.turn; return "merged" }
func (p *pair) Close() error      { p.closed = true; return nil }

func newPair(n int) *pair { return &pair{files: [2]flat{{make([]byte, n)}, {make([]byte, n)}}} }

// TestWeightsAndStateTurnTogether writes across the boundary, in every split, and reads it back after the turn and in a
// later run.
func TestWeightsAndStateTurnTogether(t *testing.T) {
	sc := Scratch{Dir: t.TempDir()}
	weights := newPair(10)
	st, err := sc.NewStateful(weights, "session", 10, 6)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		want := bytes.Repeat([]byte{byte('a' + round)}, 16)
		want[9], want[10] = '<', '>'
		for at := range len(want) {
			if _, err := st.Merging().WriteAt(want[at:at+1], int64(at)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := st.Merging().WriteAt(want[7:13], 7); err != nil {
			t.Fatal(err)
		}
		if st.Merged("note"); weights.note != "note\tsession.state-"+strconv.Itoa(round%2) {
			t.Errorf("round %d: noted %q", round, weights.note)
		}
		st.Commit()
		later, err := sc.OpenStateful(weights, "session", 10, 6, st.turn)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Stateful{st, later} {
			for at := range want {
				got := make([]byte, len(want)-at)
				if n, err := s.Committed().ReadAt(got, int64(at)); err != nil || n != len(got) || !bytes.Equal(got, want[at:]) {
					t.Fatalf("round %d from %d: %q, %d, %v", round, at, got, n, err)
				}
			}
		}
		if weights.Committed() != &weights.files[round%2] {
			t.Fatal("the weights did not turn")
		}
	}
	if _, err := st.Merging().WriteAt(make([]byte, 8), 10); err == nil {
		t.Error("a write beyond the state was taken")
	}
	if n, err := st.Merging().ReadAt(make([]byte, 8), 10); err == nil || n != 6 {
		t.Errorf("a read beyond the state gave %d, %v", n, err)
	}
	if err := st.Close(); err != nil || !weights.closed {
		t.Fatal(err, weights.closed)
	}
	if left, _ := filepath.Glob(filepath.Join(sc.Dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := sc.OpenStateful(weights, "session", 10, 6, 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("open what is gone: %v", err)
	}
}

func TestStatesOfEarlierSessionsAreRemoved(t *testing.T) {
	sc := Scratch{Dir: t.TempDir()}
	for _, id := range []string{"one", "two"} {
		if _, err := sc.NewStateful(newPair(1), id, 1, 4); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(sc.Dir, "*.state-*")); len(left) != 2 || !strings.Contains(left[0], "two") {
		t.Errorf("there are %v", left)
	}
}

// TestScratchHasNoName holds that a program that lists the directory sees nothing.
func TestScratchHasNoName(t *testing.T) {
	sc := Scratch{Dir: t.TempDir(), Spool: t.TempDir()}
	f, err := sc.File(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || info.Size() != 1<<20 {
		t.Errorf("%v, %v", info, err)
	}
	for _, dir := range []string{sc.Dir, sc.Spool} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%s: %v, %v", dir, entries, err)
		}
	}
}

// TestScratchThatDoesNotFit names every place that was tried, in one line.
func TestScratchThatDoesNotFit(t *testing.T) {
	sc := Scratch{Dir: t.TempDir(), Spool: "/dev/shm/swarmd-test-scratch"}
	defer func() { _ = os.Remove(sc.Spool) }()
	err := sc.Fits(1 << 60)
	if err == nil || !strings.Contains(err.Error(), sc.Dir) || !strings.Contains(err.Error(), sc.Spool) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
