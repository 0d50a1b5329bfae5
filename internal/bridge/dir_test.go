package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/bridge"
)

// runIn starts a bridge in dir and stops it as soon as it is ready.
func runIn(t *testing.T, dir string) error {
	t.Helper()
	e := &engine{}
	s, err := bridge.NewServer(bridge.Config{Dir: dir, Log: slog.New(slog.DiscardHandler), Handler: e})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.Ready():
		cancel()
		return <-done
	case err := <-done:
		return err
	}
}

func TestParentThatOthersControlIsRefused(t *testing.T) {
	parent := func() string {
		dir := filepath.Join(t.TempDir(), "swarmd")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	good := parent()
	if err := runIn(t, filepath.Join(good, "sl-0")); err != nil {
		t.Errorf("own parent: %v", err)
	}
	sticky := parent()
	if err := os.Chmod(sticky, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := runIn(t, filepath.Join(sticky, "sl-0")); err != nil {
		t.Errorf("parent like /tmp: %v", err)
	}
	open := parent()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := runIn(t, filepath.Join(open, "sl-0")); err == nil || !strings.Contains(err.Error(), "--bridge-dir") {
		t.Errorf("parent that everybody may write: %v", err)
	}
	if os.Geteuid() != 0 { // only root can give a directory away
		return
	}
	foreign := parent()
	if err := os.Chown(foreign, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if err := runIn(t, filepath.Join(foreign, "sl-0")); err == nil || !strings.Contains(err.Error(), "4242") {
		t.Errorf("parent of another user: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sl-1", "scope/sl-1"} {
		if err := runIn(t, filepath.Join(link, name)); err == nil || !strings.Contains(err.Error(), "4242") {
			t.Errorf("link of another user, %s: %v", name, err)
		}
	}
	if made, err := os.ReadDir(good); err != nil || len(made) > 0 {
		t.Errorf("made where the link of another user leads: %v, %v", made, err)
	}
}

// TestSweep: a daemon that was killed has left its weight files, in memory, and the next one may never come to its bridge.
func TestSweep(t *testing.T) {
	dir, spill := filepath.Join(t.TempDir(), "sl"), t.TempDir()
	files := []string{
		filepath.Join(dir, "local"), filepath.Join(dir, "merged-0"), filepath.Join(dir, "private", "merged-1"), filepath.Join(dir, "bridge.sock"),
		filepath.Join(spill, "merged-0"), filepath.Join(privateDir(dir), "merged-1"),
	}
	for _, private := range []string{privateDir(dir), filepath.Join(dir, "private")} {
		if err := os.MkdirAll(private, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range files {
		if err := os.WriteFile(name, make([]byte, 8), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(spill, "mine.txt")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := bridge.Sweep(dir, spill, func(string, *os.File) {}); err == nil {
		t.Error("swept what a daemon uses")
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := bridge.Sweep(dir, spill, func(string, *os.File) {}); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(files[:len(files):len(files)], dir, privateDir(dir)) {
			if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v, want it removed", name, err)
			}
		}
	}
	if _, err := os.Lstat(other); err != nil {
		t.Error(err)
	}
}

// TestSweepShowsWhatWasMerged: the models of a daemon that was killed, with what was noted of each, wherever they lie.
func TestSweepShowsWhatWasMerged(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rounds []string
		change func(dir string) error
		want   map[string]string
	}{
		{"nothing is merged", nil, nil, map[string]string{}},
		{"merged and not committed", []string{"one long note"}, nil, map[string]string{"one long note": "round  1"}},
		{"two rounds", []string{"one", "two"}, nil, map[string]string{"one": "round  1", "two": "round  2"}},
		{"shorter notes over longer ones", []string{"one long note", "two", "three"}, nil, map[string]string{"three": "round  3", "two": "round  2"}},
		{"a pipe in its place", []string{"one", "two"}, func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "merged-0")), unix.Mkfifo(filepath.Join(dir, "merged-0"), 0o600))
		}, map[string]string{"two": "round  2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "sl")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			s := createSlots(t, dir, 8)
			for i, note := range tt.rounds {
				if _, err := s.Merging().WriteAt(fmt.Appendf(nil, "round  %d", i+1), 0); err != nil {
					t.Fatal(err)
				}
				if s.Merged(note); i+1 < len(tt.rounds) {
					s.Commit()
				}
			}
			if tt.change != nil {
				if err := tt.change(dir); err != nil {
					t.Fatal(err)
				}
			}
			got := map[string]string{}
			err := bridge.Sweep(dir, "", func(note string, model *os.File) {
				b, err := io.ReadAll(model)
				if got[note] = string(b); err != nil {
					t.Error(err)
				}
			})
			if err != nil || !maps.Equal(got, tt.want) {
				t.Errorf("shown %q, want %q, %v", got, tt.want, err)
			}
			if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
