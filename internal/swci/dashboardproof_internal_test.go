package swci

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
)

// TestProofsOfAHostileLedger: whatever numbers a ledger gives to its rounds, the newest that came are kept, in no time, and no more of anything than is
// bounded. A contract that was deleted has no rounds.
func TestProofsOfAHostileLedger(t *testing.T) {
	r := newEventReader(func(context.Context, int64, io.Writer) (int64, error) { return 0, nil }, audit.Options{}, time.Now)
	has := func(contract string, round uint64) bool {
		_, err := r.place(t.Context(), runOf{contract: contract}, round)
		return err == nil
	}
	const high = 1 << 62
	for _, n := range []uint64{1, high, 2} {
		r.take(0, 0, ledger.Round{Contract: "c", Run: 1, Round: n})
	}
	for n := range uint64(maxRecorded) {
		r.take(0, 0, ledger.Round{Contract: "c", Run: 1, Round: high + 1 + n})
	}
	if has("c", high) || has("c", 1) || has("c", 2) || !has("c", high+1) || !has("c", high+maxRecorded) {
		t.Error("other rounds are kept than those that came last")
	}
	for n := range maxRecordedRuns {
		r.take(0, 0, ledger.Round{Contract: fmt.Sprint("c", n), Run: 1, Round: 1})
	}
	if has("c", high+maxRecorded) || !has("c0", 1) {
		t.Error("other contracts are kept than those that came last")
	}
	r.take(0, 0, ledger.Deleted{Contract: "c0", Run: 1})
	r.take(0, 0, ledger.Round{Contract: "c", Run: 1, Round: 1})
	if has("c0", 1) || !has("c", 1) || !has("c1", 1) {
		t.Error("a contract that was deleted has rounds, or leaves no room")
	}
	for _, run := range []uint64{7, 8} {
		r.take(0, 0, ledger.Round{Contract: "c", Run: run, Round: run})
	}
	for _, of := range []struct{ run, round uint64 }{{1, 1}, {7, 7}, {8, 8}, {0, 8}} {
		if _, err := r.place(t.Context(), runOf{"c", of.run}, of.round); err != nil {
			t.Errorf("of run %d: %v", of.run, err)
		}
	}
	if _, err := r.place(t.Context(), runOf{"c", 7}, 8); err == nil || has("c", 7) {
		t.Errorf("a round is of another run: %v", err)
	}
	for n := range maxRecordedIDs + 1 {
		r.take(0, 0, ledger.Registration{PeerID: fmt.Sprint(n), SPIFFEID: "spiffe://a.example"})
	}
	if n := len(r.recorded.ids.of); n != maxRecordedIDs || r.recorded.ids.of["0"] != "" {
		t.Errorf("%d node keys are kept", n)
	}
}
