package runjob

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

// runIn is the folder of run 7 of job x on a host, for its first member.
func runIn(t *testing.T, dir, node string) *runFolder {
	t.Helper()
	return runBy(t, dir, node, 0)
}

func runBy(t *testing.T, dir, node string, member uint32) *runFolder {
	t.Helper()
	f, err := runFolderOf(work.Job{Label: work.Label{Swarm: "s", Node: node, Assignment: "7", Member: member}, Grant: work.Grant{Folders: map[string]string{"w": dir}}}, &jobfile.Job{Name: "x", WorkDir: "w"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func namesIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestARunHasOneFolder: all hosts that share the folder it is in come to the same one, at the same time and in later epochs, with what is in it.
func TestARunHasOneFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o750|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	for epoch := range 2 {
		var all errgroup.Group
		for i := range 32 {
			f := runBy(t, dir, fmt.Sprintf("swop-%d", i/2), uint32(i))
			all.Go(func() error { return f.make(t.Context(), hostpaths.NewHere()) })
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := namesIn(t, dir); !slices.Equal(got, []string{"x-7"}) {
			t.Fatalf("epoch %d: %q", epoch, got)
		}
		if got, want := namesIn(t, filepath.Join(dir, "x-7")), []string{runFile, "kept"}[:epoch+1]; !slices.Equal(got, want) {
			t.Errorf("epoch %d: %q, want %q", epoch, got, want)
		}
		if err := os.WriteFile(filepath.Join(dir, "x-7", "kept"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "x-7")); err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o750 {
		t.Errorf("%v, %v: want the rights of the folder that it is in", info.Mode(), err)
	}
	for range 2 { // the run has its folder, and has none
		if err := os.Mkdir(filepath.Join(dir, ".x-7.swop-1-0"), 0o700); err != nil { // what a host has left that was killed
			t.Fatal(err)
		}
		if err := runIn(t, dir, "swop-1").make(t.Context(), hostpaths.NewHere()); err != nil || !slices.Equal(namesIn(t, dir), []string{"x-7"}) {
			t.Errorf("after a host that was killed: %v, %q", err, namesIn(t, dir))
		}
		if err := os.RemoveAll(filepath.Join(dir, "x-7")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestARunHasNoFolderOfOthers: what was there before, such as a file by which somebody has ended another run, is no run's; and nothing is made behind a link.
func TestARunHasNoFolderOfOthers(t *testing.T) {
	for name, before := range map[string]func(dir, at string) error{
		"another swarm's run": func(_, at string) error {
			return errors.Join(os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, runFile), []byte("run 7 of swarm s2\n"), 0o600))
		},
		"a stop file without a run": func(_, at string) error {
			return errors.Join(os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, "stop"), nil, 0o600))
		},
		"a file": func(_, at string) error { return os.WriteFile(at, nil, 0o600) },
		"a link": func(dir, at string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "other"), 0o700), os.Symlink("other", at))
		},
		"a link that leads out": func(_, at string) error { return os.Symlink(os.TempDir(), at) },
		"a pipe as its mark": func(_, at string) error {
			return errors.Join(os.Mkdir(at, 0o700), unix.Mkfifo(filepath.Join(at, runFile), 0o600))
		},
		"more than its mark": func(_, at string) error {
			return errors.Join(os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, runFile), []byte("run 7 of swarm s\nx"), 0o600))
		},
	} {
		dir := t.TempDir()
		if err := before(dir, filepath.Join(dir, "x-7")); err != nil {
			t.Fatal(err)
		}
		was := namesIn(t, dir)
		err := runIn(t, dir, "swop-1").make(t.Context(), hostpaths.NewHere())
		if want := "volume w has a x-7 already, which is not of this run: move it away on its host"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if now := namesIn(t, dir); !slices.Equal(was, now) {
			t.Errorf("%s: it left %q, and there was %q", name, now, was)
		}
	}
	if err := runIn(t, filepath.Join(t.TempDir(), "none"), "swop-1").make(t.Context(), hostpaths.NewHere()); err == nil || !strings.Contains(err.Error(), "the folder of volume w is not where it was") {
		t.Errorf("no folder: %v", err)
	}
	f := runIn(t, "/proc", "swop-1")
	if err := f.make(t.Context(), hostpaths.NewHere()); err == nil || !strings.Contains(err.Error(), "can't make folder x-7 in volume w: ") || strings.Contains(err.Error(), "/proc") {
		t.Errorf("a folder in which nobody makes any: %v", err)
	}
}
