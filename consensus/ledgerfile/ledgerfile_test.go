package ledgerfile

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// TestFetchedLedgerIsNoLongerThanTheState: a server that gives another history can't fill the disk of one that joins.
func TestFetchedLedgerIsNoLongerThanTheState(t *testing.T) {
	b, err := Open(NewInmem(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	long, head, err := ledger.Append(ledger.Head{}, 1, ledger.Swarm{SwarmID: strings.Repeat("x", 1000)})
	if err != nil {
		t.Fatal(err)
	}
	want := head
	want.Length, want.Bytes = 3, 900
	if err := b.Restored(want); err != nil {
		t.Fatal(err)
	}
	if err := b.Fetched(0, long); err == nil {
		t.Error("more bytes are taken than the state's ledger has")
	}
	if size, err := b.store.Size(); err != nil || size != 0 {
		t.Errorf("%d bytes are left of it, %v", size, err)
	}
}

// FuzzFetched: whatever another server gives, what is kept is a chain that is no longer than the state's, and it is whole
// only if it ends in the state's hash.
func FuzzFetched(f *testing.F) {
	var lines []byte
	want := ledger.Head{}
	for i := range 3 {
		line, head, err := ledger.Append(want, int64(i), ledger.Swarm{SwarmID: strings.Repeat("x", i)})
		if err != nil {
			f.Fatal(err)
		}
		lines, want = append(lines, line...), head
	}
	f.Add(lines, uint64(0))
	f.Add(lines[:len(lines)/2], uint64(0))
	f.Add(append(lines, lines...), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, have uint64) {
		b, err := Open(NewInmem(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Restored(want); err != nil {
			t.Fatal(err)
		}
		_ = b.Fetched(have, data)
		_, _, behind := b.Missing()
		if !behind && b.head != want || b.head.Length > want.Length || b.head.Bytes > want.Bytes {
			t.Fatalf("it holds %+v of %+v, behind: %t", b.head, want, behind)
		}
		if again, err := Open(b.store, slog.New(slog.DiscardHandler)); err != nil || again.head != b.head {
			t.Fatalf("it opens anew at %+v, was at %+v: %v", again.head, b.head, err)
		}
	})
}
