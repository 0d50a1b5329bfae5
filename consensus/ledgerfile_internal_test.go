package consensus

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// TestFetchedLedgerIsNoLongerThanTheState: a server that gives another history can't fill the disk of one that joins.
func TestFetchedLedgerIsNoLongerThanTheState(t *testing.T) {
	b, err := openBook(NewInmemLedger(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	long, head, err := ledger.Append(ledger.Head{}, 1, ledger.Swarm{SwarmID: strings.Repeat("x", 1000)})
	if err != nil {
		t.Fatal(err)
	}
	want := head
	want.Length, want.Bytes = 3, 900
	if err := b.restored(want); err != nil {
		t.Fatal(err)
	}
	if err := b.fetched(0, long); err == nil {
		t.Error("more bytes are taken than the state's ledger has")
	}
	if size, err := b.store.Size(); err != nil || size != 0 {
		t.Errorf("%d bytes are left of it, %v", size, err)
	}
}
