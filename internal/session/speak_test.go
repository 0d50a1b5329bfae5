package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// TestHeartbeatsRepeatASignature: a node signs what is new, and numbers it.
func TestHeartbeatsRepeatASignature(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		time.Sleep(2 * time.Second)
		first := w.said()
		if first.GetNumber() != 1 || len(first.GetSignature()) == 0 {
			t.Fatalf("report says %v, want it signed", first)
		}
		time.Sleep(time.Minute)
		if err := e.Report(id, &swarmv1.Progress{Loss: 1, HasLoss: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if now := w.said(); w.count() < 100 || w.signs() != 1 || now.GetNumber() != 1 || string(now.GetSignature()) != string(first.GetSignature()) {
			t.Errorf("%d signatures in %d reports, the last is %v", w.signs(), w.count(), now)
		}
		_ = syncCall(t, e, id, 1)
		ready := w.said()
		if ready.GetReady().GetSeq() != 1 || ready.GetNumber() != 2 || w.signs() != 2 {
			t.Errorf("%d signatures, report says %v", w.signs(), ready)
		}
		w.update(func(v *swarmv1.ContractView) { v.Run = 2 }) // lets the program go
	})
}
