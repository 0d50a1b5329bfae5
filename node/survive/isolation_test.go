package survive_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOtherIsolationIsNotResumed: a program that was let out is not let run on by a daemon that is to isolate it, and would tell
// the other peers so.
func TestOtherIsolationIsNotResumed(t *testing.T) {
	s := newSite(t)
	s.env = []string{"SWARM_ML_NETWORK=host"}
	p := s.start(1, "MIN_PEERS=1", "BATCHES=100000")
	p.Sees("model handed to the program", `isolation="container, open: network host"`)
	p.Kill()
	before := s.containers(1)[0].ID
	if err := os.Remove(filepath.Join(s.model(1), "metrics")); err != nil {
		t.Fatal(err)
	}
	s.env = nil
	p = s.start(1, "MIN_PEERS=1", "CONTRACT=again")
	p.Sees("in another isolation", `isolation="container, no network"`)
	if code := p.Exits(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if _, err := s.engine.ContainerInspect(t.Context(), before); err == nil {
		t.Error("the program that was let out is still there")
	}
	s.agree(1)
	s.tidy(1)
}
