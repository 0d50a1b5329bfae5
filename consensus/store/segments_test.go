package store_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/swarmd/swarmd/consensus/store"
)

// A log whose end is cut off again and again reads the same after each restart.
func TestLogReadsAfterItsEndWasCut(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	var model []string // entry i+1
	for life := range 12 {
		stores, closer, err := store.Open(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("seed %d, life %d: %v", seed, life, err)
		}
		for i, want := range model {
			var got raft.Log
			if err := stores.Log.GetLog(uint64(i+1), &got); err != nil || string(got.Data) != want {
				t.Fatalf("seed %d, life %d: entry %d is %q, %v; want %q", seed, life, i+1, got.Data, err, want)
			}
		}
		if last, err := stores.Log.LastIndex(); err != nil || last != uint64(len(model)) {
			t.Fatalf("seed %d, life %d: the log ends at %d, %v; want %d", seed, life, last, err, len(model))
		}
		for range 3 {
			for range 1 + rng.IntN(5) {
				data := fmt.Sprintf("life %d, entry %d", life, len(model)+1)
				if err := stores.Log.StoreLog(&raft.Log{Index: uint64(len(model) + 1), Data: []byte(data)}); err != nil {
					t.Fatal(err)
				}
				model = append(model, data)
			}
			if cut := rng.IntN(4); cut > 0 && cut < len(model) {
				if err := stores.Log.DeleteRange(uint64(len(model)-cut+1), uint64(len(model))); err != nil {
					t.Fatal(err)
				}
				model = model[:len(model)-cut]
			}
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
