package admission

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/internal/session"
)

// TestOneIdentityDoesNotTakeAllWaits has a node that is not enrolled open more streams than may wait, with many keys: one of
// another SPIFFE ID still waits for the view.
func TestOneIdentityDoesNotTakeAllWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := New(session.New(session.Config{Peer: "sl-0", Log: slog.New(slog.DiscardHandler)}), nil)
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for range maxViewWaits {
			waiting.Go(func() { _ = door.Admit(ctx, "key", "spiffe://a.example/swarm/sl/rogue") })
		}
		synctest.Wait()
		ended := make(chan error, 1)
		waiting.Go(func() { ended <- door.Admit(ctx, "other", "spiffe://a.example/swarm/sl/sl-1") })
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("the other node does not wait: %v", err)
		default:
		}
		if err := door.Admit(ctx, "key", "spiffe://a.example/swarm/sl/rogue"); err == nil || !strings.Contains(err.Error(), "too many streams") {
			t.Errorf("one more of the first: %v", err)
		}
		cancel()
		waiting.Wait()
		if len(door.waits) != 0 {
			t.Errorf("places are still taken: %v", door.waits)
		}
	})
}
