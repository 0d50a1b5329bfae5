package runjob

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/work/procs"
)

// TestWhoWatchesReachesTheEngine holds that a process that is to end a host's members has all by which its SWOP reaches the engine, and is registered
// where its SWOP looks.
func TestWhoWatchesReachesTheEngine(t *testing.T) {
	dir := t.TempDir()
	want := map[string]string{
		"SWARM_RUN_DIR": filepath.Join(dir, "run"), "DOCKER_HOST": "tcp://engine:2376", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": dir, "DOCKER_API_VERSION": "1.44",
	}
	for name, value := range want {
		t.Setenv(name, value)
	}
	w := &Watch{Dir: dir, Swarmd: copied(t, filepath.Join(dir, "swarmd")), Node: "swop-1", Scope: "runjob-watch-test", Log: slog.New(slog.DiscardHandler)}
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	e, runs, err := w.entry()
	if err != nil || !runs {
		t.Fatal(runs, err)
	}
	has := map[string]string{}
	for kv := range bytes.SplitSeq(procs.Read(e.PID, "environ", 4<<20), []byte{0}) {
		name, value, _ := strings.Cut(string(kv), "=")
		has[name] = value
	}
	for name, value := range want {
		if has[name] != value {
			t.Errorf("%s is %q there, want %q", name, has[name], value)
		}
	}
	if err := w.end(t.Context()); err != nil {
		t.Error(err)
	}
	if _, runs, err := w.entry(); runs || err != nil {
		t.Errorf("it runs: %v, %v", runs, err)
	}
}

// copied is this binary in another place.
func copied(t *testing.T, to string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil || out.Close() != nil {
		t.Fatal(err)
	}
	return to
}
