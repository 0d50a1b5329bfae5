package state_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestSwarmWithoutTasksWritesTheSameBytes: the snapshots and records of a swarm that uses no tasks are those of versions that knew none.
// The golden file was
// written by one, and no flag rewrites it.
func TestSwarmWithoutTasksWritesTheSameBytes(t *testing.T) {
	s, lines, _ := chained(t, trained()...)
	snapshot, err := state.EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	got := append(bytes.Join(lines, nil), append(snapshot, '\n')...)
	want, err := os.ReadFile("testdata/without-tasks.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("a swarm without tasks writes other bytes (-want +got):\n%s", diff)
	}
	written := bytes.Split(bytes.TrimSuffix(want, []byte("\n")), []byte("\n"))
	if _, err := state.DecodeSnapshot(written[len(written)-1]); err != nil {
		t.Errorf("a snapshot of before does not decode: %v", err)
	}
}
