package runner

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLogPosition: the time is kept to the nanosecond, which may be a count of entries, and only of the program whose it is.
func TestLogPosition(t *testing.T) {
	path := filepath.Join(t.TempDir(), logPositionName)
	var log bytes.Buffer
	at := time.Unix(1_700_000_000, 3)
	first := logPosition{path: path, log: slog.New(slog.NewTextHandler(&log, nil))}
	if got := first.read("a"); !got.IsZero() {
		t.Errorf("nothing was kept: got %s", got)
	}
	first.write("a", at)
	next := logPosition{path: path}
	if got := next.read("a"); !got.Equal(at) {
		t.Errorf("got %s, want %s", got, at)
	}
	if got := next.read("b"); !got.IsZero() {
		t.Errorf("another program's: got %s", got)
	}
	for _, text := range []string{"", "a", "a ", "a x", "a 99999999999999999999"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := next.read("a"); !got.IsZero() {
			t.Errorf("%q: got %s", text, got)
		}
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	first.write("a", at)
	first.write("a", at)
	if n := strings.Count(log.String(), "could not keep"); n != 1 {
		t.Errorf("said %d times that it can't be kept: %s", n, log.String())
	}
}
