package history_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/history"
)

// TestRecordsOfRounds: an SN notes which record of the ledger proves a round, also when the ledger's file is behind the state. Another SN that
// has not seen the round takes that over.
func TestRecordsOfRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := newSN()
		store, _ := open(t, t.TempDir(), history.Limits{})
		late, _ := open(t, t.TempDir(), history.Limits{})
		r := history.NewRecorder(store, own, sources{}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { _ = r.Run(ctx) })
		lines := records(t, ledger.Over{}, ledger.Round{Contract: "c", Run: 2, Round: 1}, ledger.Over{}, ledger.Round{Contract: "c", Run: 1, Round: 2}, ledger.Round{Contract: "c", Run: 2, Round: 2})
		commit := func(n, length uint64) {
			own.show(&state.Contract{Name: "c", Run: 2, Committed: &state.CommittedRound{Round: n, Digest: "d", Participants: []string{"sl-0"}}})
			own.mu.Lock()
			own.view.Ledger = &ledger.Head{Length: length}
			own.mu.Unlock()
		}
		record := func(s *history.Store, n int) uint64 {
			t.Helper()
			_, part := rounds(t, s, "c", history.Query{})
			if len(part.Rounds) < n {
				t.Fatalf("%d rounds are kept, want %d", len(part.Rounds), n)
			}
			return part.Rounds[n-1].Record
		}
		own.show(&state.Contract{Name: "c", Run: 2})
		synctest.Wait()
		for n, length := range []int{2, 5} {
			commit(uint64(n+1), uint64(length)) //nolint:gosec // a test's
			time.Sleep(2 * time.Second)
			if got := record(store, n+1); got != 0 {
				t.Errorf("round %d before its record is in the file: record %d", n+1, got)
			}
			own.mu.Lock()
			own.ledger = lines[:length]
			own.mu.Unlock()
			time.Sleep(2 * time.Second)
			if got := record(store, n+1); got != uint64(length) { //nolint:gosec // likewise
				t.Errorf("round %d: record %d, want %d", n+1, got, length)
			}
		}
		other := newSN()
		other.show(&state.Contract{Name: "c", Run: 2, Committed: &state.CommittedRound{Round: 2}})
		follows := history.NewRecorder(late, other, sources{"": func(contract string, q history.Query) (history.Part, bool, error) {
			part, err := store.Read(contract, q)
			return part, true, err
		}}, slog.New(slog.DiscardHandler))
		running.Go(func() { _ = follows.Run(ctx) })
		time.Sleep(5 * time.Second)
		if got := record(late, 1); got != 2 {
			t.Errorf("another SN has record %d, want 2", got)
		}
	})
}
