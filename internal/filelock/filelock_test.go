package filelock_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/swarmd/swarmd/internal/filelock"
)

func TestTake(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	l, err := filelock.Take(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("lock file: %v, %v; want mode 0600", info, err)
	}
	if _, err := filelock.Take(path); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("taken twice: %v, want ErrLocked", err)
	}
	for _, text := range []string{"12345\n", "1\n"} {
		if err := l.Note(text); err != nil {
			t.Fatal(err)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != text {
			t.Errorf("note %q, %v; want %q", raw, err, text)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed twice: %v, want os.ErrClosed", err)
	}
	again, err := filelock.Take(path)
	if err != nil {
		t.Fatalf("after it was closed: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestTakeOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *os.File {
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	first := open()
	if err := filelock.TakeOpen(first); err != nil {
		t.Fatal(err)
	}
	if err := filelock.TakeOpen(open()); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("locked twice: %v, want ErrLocked", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := filelock.TakeOpen(open()); err != nil {
		t.Errorf("after it was closed: %v", err)
	}
}
