package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/round"
)

// TestHeartbeatsRepeatASignature: a node signs what is new, and numbers it.
func TestHeartbeatsRepeatASignature(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		time.Sleep(2 * time.Second)
		first := w.said()
		if first.Number != 1 || len(first.Signature) == 0 {
			t.Fatalf("report says %v, want it signed", first)
		}
		time.Sleep(time.Minute)
		if err := e.Report(id, round.Progress{Loss: 1, HasLoss: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if now := w.said(); w.count() < 100 || w.signs() != 1 || now.Number != 1 || string(now.Signature) != string(first.Signature) {
			t.Errorf("%d signatures in %d reports, the last is %v", w.signs(), w.count(), now)
		}
		_ = syncCall(t, e, id, 1)
		ready := w.said()
		if ready.Ready.Seq != 1 || ready.Number != 2 || w.signs() != 2 {
			t.Errorf("%d signatures, report says %v", w.signs(), ready)
		}
		w.update(func(v *round.View) { v.Run = 2 }) // lets the program go
	})
}
