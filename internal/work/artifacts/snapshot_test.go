package artifacts_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSnapshot: it has what a member has left until then, and nothing that is elsewhere on its host; it goes without what the member has.
func TestSnapshot(t *testing.T) {
	s := newStore(t)
	l := label("7", 1, 0)
	if _, _, err := s.Snapshot(t.Context(), l); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a member without a folder: %v", err)
	}
	dir, err := s.Make(l, "node", os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	if _, files, err := s.Snapshot(t.Context(), l); files != 0 || err != nil {
		t.Error("of nothing:", files, err)
	}
	outside := filepath.Join(t.TempDir(), "key")
	if err := errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600), os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700), os.WriteFile(filepath.Join(dir, "a", "b", "model"), []byte("weights"), 0o600),
		os.WriteFile(filepath.Join(dir, "log"), []byte("one"), 0o600), os.Symlink(outside, filepath.Join(dir, "link")), os.Symlink(filepath.Dir(outside), filepath.Join(dir, "folder")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	at, files, err := s.Snapshot(t.Context(), l)
	if err != nil || files != 2 {
		t.Fatal(files, err)
	}
	got := map[string]string{}
	err = filepath.WalkDir(at, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		rel, _ := filepath.Rel(at, name)
		got[rel] = string(raw)
		return err
	})
	if d := cmp.Diff(map[string]string{"a/b/model": "weights", "log": "one"}, got); d != "" || err != nil {
		t.Error(d, err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "log")), s.Drop(l), s.DropAll()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "a", "b", "model")); string(raw) != "weights" || err != nil {
		t.Errorf("the member's own: %q, %v", raw, err)
	}
}
