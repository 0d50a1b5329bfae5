package runjob

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

// TestHostsGiveTheFilesOfARun: all hosts that share the folder do, at the same time, and what programs have made of them in an epoch before is replaced.
func TestHostsGiveTheFilesOfARun(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "x-7", "MAIN_config.json")
	for _, before := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(at, []byte("{}"), 0o600) },
		func() error { return errors.Join(os.Remove(at), os.Symlink("/etc/passwd", at)) },
		func() error { return errors.Join(os.Remove(at), unix.Mkfifo(at, 0o600)) },
	} {
		if err := before(); err != nil {
			t.Fatal(err)
		}
		var all errgroup.Group
		for i := range 16 {
			f := runBy(t, dir, fmt.Sprintf("swop-%d", i/2), uint32(i))
			f.files = []framework.Found{{Name: "MAIN_config.json", Data: []byte("{\"a\":\"b\"}\n")}}
			all.Go(func() error { return f.make(t.Context(), hostpaths.NewHere()) })
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(at)
		raw, read := os.ReadFile(at)
		if err != nil || read != nil || info.Mode() != 0o644 || string(raw) != "{\"a\":\"b\"}\n" {
			t.Errorf("%q, %v, %v, %v", raw, info.Mode(), err, read)
		}
		if got := namesIn(t, filepath.Join(dir, "x-7")); !slices.Equal(got, []string{runFile, "MAIN_config.json"}) {
			t.Errorf("%q", got)
		}
	}
}

// TestAFolderIsNoFileOfARun: what can't be replaced is reported.
func TestAFolderIsNoFileOfARun(t *testing.T) {
	dir := t.TempDir()
	f := runIn(t, dir, "swop-1")
	f.files = []framework.Found{{Name: "MAIN_config.json"}}
	if err := os.MkdirAll(filepath.Join(dir, "x-7", "MAIN_config.json", "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x-7", runFile), []byte(f.text()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.make(t.Context(), hostpaths.NewHere()); err == nil {
		t.Error("a folder is taken for the file")
	}
	if got := namesIn(t, filepath.Join(dir, "x-7")); !slices.Equal(got, []string{runFile, "MAIN_config.json"}) {
		t.Errorf("%q", got)
	}
}

// TestWordsAreClearedAloud: a stop file of the epoch before goes, and the log says so; a folder of that name stays with what is in it.
func TestWordsAreClearedAloud(t *testing.T) {
	dir := t.TempDir()
	said := &strings.Builder{}
	f := runIn(t, dir, "swop-1")
	f.epoch, f.log = 2, slog.New(slog.NewTextHandler(said, nil))
	in := filepath.Join(dir, "x-7")
	if err := errors.Join(os.MkdirAll(filepath.Join(in, "stop", "data"), 0o700), os.WriteFile(filepath.Join(in, "stop_fail"), nil, 0o600), os.WriteFile(filepath.Join(in, runFile), []byte(f.text()), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := f.make(t.Context(), hostpaths.NewHere()); err != nil {
		t.Fatal(err)
	}
	if got := namesIn(t, in); !slices.Equal(got, []string{epochFile, runFile, "stop"}) {
		t.Errorf("%q", got)
	}
	if got := namesIn(t, filepath.Join(in, "stop")); !slices.Equal(got, []string{"data"}) {
		t.Errorf("%q", got)
	}
	for _, want := range []string{"a stop file of the epoch before was removed", "name=stop_fail", "is not removed", "name=stop "} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, said)
		}
	}
}
