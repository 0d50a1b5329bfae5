package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

// want checks that dir holds just one file, with this content and mode.
func want(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	raw, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if err := errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	if string(raw) != text || info.Mode().Perm() != mode {
		t.Errorf("file has %q and mode %o, want %q and %o", raw, info.Mode().Perm(), text, mode)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("directory holds %v, %v; want the file alone", left, err)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(string, []byte, fs.FileMode) error{"synced": atomicfile.Replace, "unsynced": atomicfile.ReplaceUnsynced} {
		path := filepath.Join(t.TempDir(), name)
		for _, f := range []struct {
			text string
			mode fs.FileMode
		}{{"old", 0o600}, {"new", 0o666}} { // 0666: more than the usual umask allows
			if err := replace(path, []byte(f.text), f.mode); err != nil {
				t.Fatal(err)
			}
			want(t, path, f.text, f.mode)
		}
	}
}

func TestReplaceFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Replace(filepath.Join(dir, "a"), []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	if err := atomicfile.New(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.New(path, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an existing file: %v, want fs.ErrExist", err)
	}
	want(t, path, "first", 0o600)
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	write := func(text string) *atomicfile.File {
		f, err := atomicfile.Create(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return f
	}
	dropped := write("dropped")
	if raw, err := os.ReadFile(dropped.Name()); err != nil || string(raw) != "dropped" {
		t.Errorf("before it is in place: %q, %v", raw, err)
	}
	if err := dropped.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was dropped: %v", err)
	}
	placed := write("placed")
	if err := errors.Join(placed.New(), placed.Close()); err != nil {
		t.Fatal(err)
	}
	want(t, path, "placed", 0o600)
}

// TestSweep holds that what a killed writer has left is removed, and nothing that may still be written or is another's.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	left, err := atomicfile.Create(filepath.Join(dir, "left"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	written, err := atomicfile.Create(filepath.Join(dir, "written"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	other := filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(other, nil, 0o600), os.Chtimes(left.Name(), long, long), os.Chtimes(other, long, long), atomicfile.Sweep(dir, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
	if err := errors.Join(written.Replace(), written.Close(), left.File.Close()); err != nil {
		t.Error(err)
	}
	if err := atomicfile.Sweep(filepath.Join(dir, "none"), 0); err != nil {
		t.Errorf("of no folder: %v", err)
	}
}
