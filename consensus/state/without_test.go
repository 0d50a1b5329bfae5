package state_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
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

// TestSnapshotWithTasksIsFrozen: what a swarm with tasks has written is read by later versions. No flag rewrites the golden file.
func TestSnapshotWithTasksIsFrozen(t *testing.T) {
	s, _, _ := chained(t, append(assigned(), moves(placed("swop-0")), state.RegisterNode{
		Node:      state.Node{Name: "swop-2", Role: naming.RoleSWOP, PeerID: "key-swop-2", Offer: &task.Offer{Taskrunner: "tr", Peers: 2}},
		TokenHash: hexOf("ab", 64), AtMS: 10,
	})...)
	got, err := state.EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/with-tasks.golden")
	if err != nil {
		t.Fatal(err)
	}
	want = bytes.TrimSuffix(want, []byte("\n"))
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("a swarm with tasks writes other bytes (-want +got):\n%s", diff)
	}
	if again, err := state.DecodeSnapshot(want); err != nil || again.Tasks.Assignments["7"].Members[0].Node != "swop-0" {
		t.Errorf("it does not read back: %v", err)
	}
}
