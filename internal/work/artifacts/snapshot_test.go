package artifacts_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/work"
)

// TestSnapshot: it has what a member has left until then, and nothing that is elsewhere on its host; it goes without what the member has.
func TestSnapshot(t *testing.T) {
	s := newStore(t)
	l := label("7", 1, 0)
	if _, _, _, err := s.Snapshot(t.Context(), l); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a member without a folder: %v", err)
	}
	dir, err := s.Make(l, "node", os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	if _, files, left, err := s.Snapshot(t.Context(), l); files != 0 || left != 0 || err != nil {
		t.Error("of nothing:", files, left, err)
	}
	outside := filepath.Join(t.TempDir(), "key")
	if err := errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600), os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700), os.WriteFile(filepath.Join(dir, "a", "b", "model"), []byte("weights"), 0o600),
		os.WriteFile(filepath.Join(dir, "log"), []byte("one"), 0o600), os.Symlink(outside, filepath.Join(dir, "link")), os.Symlink(filepath.Dir(outside), filepath.Join(dir, "folder")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	at, files, left, err := s.Snapshot(t.Context(), l)
	if err != nil || files != 2 || left != 3 {
		t.Fatal(files, left, err)
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

// TestSnapshotOfOddEntries: what can't be linked is counted, and all else is there.
func TestSnapshotOfOddEntries(t *testing.T) {
	s := newStore(t)
	l := label("7", 1, 0)
	dir, err := s.Make(l, "node", os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	deep := ""
	for range 40 { // beyond the longest path of Linux
		deep = filepath.Join(deep, strings.Repeat("d", 120))
		if err := root.Mkdir(deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) error { return os.WriteFile(filepath.Join(dir, name), []byte("1"), 0o600) }
	nested := filepath.Join(dir, strings.Repeat("n/", 140))
	if err := errors.Join(
		file("model"), file("no\xfftext"), os.Mkdir(filepath.Join(dir, "no\xfffolder"), 0o700), file("no\xfffolder/in it"), file("closed"), os.Chmod(filepath.Join(dir, "closed"), 0),
		os.Mkdir(filepath.Join(dir, "shut"), 0o700), file("shut/in it"), os.Chmod(filepath.Join(dir, "shut"), 0), os.MkdirAll(nested, 0o700),
	); err != nil {
		t.Fatal(err)
	}
	at, files, left, err := s.Snapshot(t.Context(), l)
	if p, is := errors.AsType[*work.Partial](err); !is || files != 3 || left != 0 || !strings.Contains(p.Words, "can't read 4 files or folders") {
		t.Fatalf("%d files, %d left out, %v", files, left, err)
	}
	for _, name := range []string{"model", "closed", "shut/in it"} {
		if raw, err := os.ReadFile(filepath.Join(at, name)); string(raw) != "1" || err != nil {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
	if err := errors.Join(os.RemoveAll(dir), s.Drop(l)); err != nil {
		t.Fatal(err)
	}
	if at, files, left, err := s.Snapshot(t.Context(), l); at == "" || files != 0 || left != 0 || err != nil {
		t.Error("of a folder that its program has removed:", at, files, left, err)
	}
}
