package daemon_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/registry"
)

// TestProcessesAreRegistered holds that a component which is a process can be found by stop-swarm while it runs, and by its
// own scope only.
func TestProcessesAreRegistered(t *testing.T) {
	dir, runDir := t.TempDir(), t.TempDir()
	t.Setenv("SWARM_RUN_DIR", runDir)
	p := e2etest.Start(t, "sn", dir, []string{"SWARM_RUN_DIR=" + runDir, "SWARM_SCOPE=lab"}, filepath.Join(installed(t, "swarmd"), "swarmd"),
		"run-sn", "--host-ip=127.0.0.1", "--sentinel-ip=127.0.0.1", "--name=sn-1", "--socket-path="+dir+"/none.sock", "--state-dir="+dir+"/st")
	p.Sees("waiting for an identity")
	found, err := registry.List("lab")
	if err != nil || len(found) != 1 {
		t.Fatalf("registered: %v, %v", found, err)
	}
	e := found[0]
	got := registry.Entry{PID: e.PID, Role: e.Role, Name: e.Name, StateDir: e.StateDir, Scope: e.Scope}
	want := registry.Entry{PID: p.Cmd.Process.Pid, Role: "sn", Name: "sn-1", StateDir: dir + "/st", Scope: "lab"}
	if diff := cmp.Diff(got, want, cmp.AllowUnexported(registry.Entry{})); diff != "" {
		t.Error(diff)
	}
	if others, err := registry.List("default"); err != nil || len(others) != 0 {
		t.Errorf("in another scope: %v, %v", others, err)
	}
	p.Signal(syscall.SIGTERM)
	<-p.Done
	if left, _ := filepath.Glob(filepath.Join(runDir, "*.json")); len(left) != 0 {
		t.Errorf("after its end: %v", left)
	}
}
