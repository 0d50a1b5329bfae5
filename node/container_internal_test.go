package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/session"
)

// TestLoggedTo: the program can do with its log what it likes.
func TestLoggedTo(t *testing.T) {
	dir := t.TempDir()
	record := filepath.Join(dir, journalName)
	session.OpenJournal(record, slog.New(slog.DiscardHandler)).Begin("1", "p", "w")
	c := &containers{
		spec: container.Spec{LogFile: filepath.Join(dir, "p_sw.log")}, journal: session.OpenJournal(record, slog.New(slog.DiscardHandler)),
	}
	want := func(name string, at time.Time) {
		t.Helper()
		if got := c.loggedTo(); !got.Equal(at) {
			t.Errorf("%s: got %s, want %s", name, got, at)
		}
	}
	write := func(at time.Time) {
		t.Helper()
		if err := os.WriteFile(c.spec.LogFile, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(c.spec.LogFile, at, at); err != nil {
			t.Fatal(err)
		}
	}
	changed := c.journal.Changed()
	want("no log", changed)
	at := changed.Add(-time.Minute)
	write(at)
	want("log", at)
	write(changed.Add(24 * time.Hour))
	want("log of tomorrow", changed)
	if err := os.Remove(c.spec.LogFile); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", c.spec.LogFile); err != nil {
		t.Fatal(err)
	}
	want("link", changed)
}
