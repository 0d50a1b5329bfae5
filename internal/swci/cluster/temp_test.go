package cluster_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/swci/cluster"
)

// TestMain lets the test binary play a swarmctl that makes a cluster's folders and is killed before it removes them.
func TestMain(m *testing.M) {
	if os.Getenv("LEAVE_FOLDERS") == "" {
		os.Exit(m.Run())
	}
	if _, err := cluster.New(cluster.Config{Keep: os.Getenv("LEAVE_FOLDERS") == "keep"}); err != nil {
		os.Exit(1)
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	fmt.Println(err)
	select {}
}

// killed runs a process that is killed while it has a cluster, and returns the folders that it left below tmp.
func killed(t *testing.T, how, tmp string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "LEAVE_FOLDERS="+how)
	var ended *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &ended) || ended.ExitCode() != -1 {
		t.Fatalf("helper: %v", err)
	}
	dirs, err := filepath.Glob(filepath.Join(tmp, "swarm-*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

func TestNewSweepsWhatTheKilledLeft(t *testing.T) {
	tmp, err := os.MkdirTemp("/tmp", "ct-") // t.TempDir is too long for sockets, so it would not be used
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	t.Setenv("TMPDIR", tmp)
	left := killed(t, "yes", tmp)
	if len(left) != 1 {
		t.Fatalf("folders of the killed: %v", left)
	}
	kept := killed(t, "keep", tmp) // its start sweeps the first one's
	if len(kept) != 1 || kept[0] == left[0] {
		t.Fatalf("folders of the killed with Keep: %v", kept)
	}
	foreign := filepath.Join(tmp, "swarm-of-another-program")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	live, err := cluster.New(cluster.Config{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := cluster.New(cluster.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{live.Dir(), other.Dir(), foreign, kept[0]} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("swept though it is in use or not ours: %v", err)
		}
	}
	live.Close()
	other.Close()
	for _, dir := range []string{left[0], live.Dir(), other.Dir()} {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left (%v)", dir, err)
		}
	}
	shm, err := filepath.Glob("/dev/shm/swarm-*/owner")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range shm {
		if pid, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(pid)) == fmt.Sprint(os.Getpid()) {
			t.Errorf("%s is left", file)
		}
	}
}
