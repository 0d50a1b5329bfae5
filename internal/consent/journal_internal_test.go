package consent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

// journalWith opens a journal of n assignments that may be forgotten.
func journalWith(t *testing.T, n int) *Journal {
	t.Helper()
	dir, all := t.TempDir(), strings.Builder{}
	for i := range n {
		id := strconv.Itoa(i + 1)
		all.WriteString(`{"assignment":"` + id + `","order":"o","by":"b","task":"t","digest":"d","received_ms":` + id + `,"expires_ms":1,"decision":"asked","decided_ms":1}` + "\n")
	}
	if err := os.WriteFile(filepath.Join(dir, JournalName), []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := OpenJournal(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func newEntry(id string) Entry {
	return Entry{Assignment: id, Order: "o", By: "b", Task: "t", Digest: "d", ReceivedMS: 1, ExpiresMS: 1, Decision: Asked, DecidedMS: 1}
}

// holds holds what a journal knows to what a host knows that is started again.
func holds(t *testing.T, what string, j *Journal, entries int) {
	t.Helper()
	again, err := OpenJournal(filepath.Dir(j.path), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer again.Close()
	if diff := cmp.Diff(again.all, j.all); diff != "" || len(j.all) != entries {
		t.Errorf("%s: %d entries (-file +memory)\n%s", what, len(j.all), diff)
	}
	if left, err := os.ReadDir(filepath.Dir(j.path)); err != nil || len(left) != 1 {
		t.Errorf("%s: left are %v, %v", what, left, err)
	}
}

// TestARewriteThatFails: after each outcome the journal knows what its file has, and goes on with the file that is at its name.
func TestARewriteThatFails(t *testing.T) {
	full := errors.New("no space left")
	j := journalWith(t, MaxOfOne)
	j.file.place = func(*atomicfile.File) error { return full }
	if err := j.put(newEntry("9001"), 1); !errors.Is(err, full) {
		t.Errorf("a rewrite that fails: %v", err)
	}
	holds(t, "a rewrite that fails", j, MaxOfOne)
	j.file.place = func(f *atomicfile.File) error { return errors.Join(f.Replace(), full) }
	if err := j.put(newEntry("9001"), 1); !errors.Is(err, full) {
		t.Errorf("a rewrite of whose name the disk does not know: %v", err)
	}
	holds(t, "a rewrite of whose name the disk does not know", j, MaxOfOne*3/4)
	synced := 0
	j.file.syncDir = func(string) error {
		synced++
		return []error{full, nil}[synced-1]
	}
	for i, want := range []error{full, nil, nil} {
		if err := j.put(newEntry("9001"), 1); !errors.Is(err, want) {
			t.Errorf("try %d: %v, want %v", i, err, want)
		}
	}
	if synced != 2 {
		t.Errorf("the name was brought to the disk in %d tries, want 2", synced)
	}
	holds(t, "afterwards", j, MaxOfOne*3/4+1)
}

// TestALineThatIsNotWritten: what may be left of it is not in the way of the next one.
func TestALineThatIsNotWritten(t *testing.T) {
	j := journalWith(t, 3)
	writable := j.file.File
	if _, err := writable.WriteAt([]byte(strings.Repeat("x", 900)+"\n"), j.file.size); err != nil { // as one that can't be taken back
		t.Fatal(err)
	}
	readonly, err := os.Open(j.path)
	if err != nil {
		t.Fatal(err)
	}
	j.file.File = readonly
	if err := j.put(newEntry("9001"), 1); err == nil {
		t.Error("a file was written that is not open for it")
	}
	if err := writable.Close(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"9002", "9003"} {
		if err := j.put(newEntry(id), 1); err != nil {
			t.Error(err)
		}
	}
	holds(t, "afterwards", j, 5)
}
