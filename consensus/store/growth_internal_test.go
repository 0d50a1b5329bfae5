package store

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestGrowthOfALogWithAGap: a log in memory has one where the leader's snapshot took the place of entries.
func TestGrowthOfALogWithAGap(t *testing.T) {
	log := raft.NewInmemStore()
	for _, i := range []uint64{5, 6, 20, 21} {
		if err := log.StoreLog(&raft.Log{Index: i, Data: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	g := NewGrowth(1<<20, 1<<20, 100)
	if err := g.Load(Stores{Log: log, Snapshots: raft.NewInmemSnapshotStore()}); err != nil {
		t.Fatal(err)
	}
	if len(g.sizes) != 2 || g.first != 20 {
		t.Errorf("it knows %d entries from %d on, want 2 from 20 on", len(g.sizes), g.first)
	}
}
