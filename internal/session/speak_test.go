package session_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/session"
)

// TestASignatureCoversAllThatASessionSays: a field that is new is covered too.
func TestASignatureCoversAllThatASessionSays(t *testing.T) {
	whole := &swarmv1.SessionReport{
		Session: "s", Contract: "c", Run: 1, Number: 2, Ready: &swarmv1.Ready{Refuses: []string{"n"}}, Failed: &swarmv1.Failed{}, Held: []*swarmv1.HeldModel{{}},
	}
	const node = "n"
	before := string(session.ReportMessage(node, whole))
	seen := map[string]string{before: "the whole", string(session.ReportMessage("m", whole)): "another node"}
	if len(seen) != 2 {
		t.Error("the node is not covered")
	}
	check := func(of func(*swarmv1.SessionReport) protoreflect.Message, except ...protoreflect.Name) {
		fields := of(whole).Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if slices.Contains(except, f.Name()) {
				continue
			}
			changed := proto.CloneOf(whole)
			m := of(changed)
			switch {
			case f.IsList() || f.Message() != nil && m.Has(f):
				m.Clear(f)
			case f.Kind() == protoreflect.StringKind:
				m.Set(f, protoreflect.ValueOfString("other"))
			case f.Kind() == protoreflect.DoubleKind:
				m.Set(f, protoreflect.ValueOfFloat64(7))
			case f.Kind() == protoreflect.Uint32Kind:
				m.Set(f, protoreflect.ValueOfUint32(7))
			case f.Kind() == protoreflect.Uint64Kind:
				m.Set(f, protoreflect.ValueOfUint64(7))
			default:
				t.Errorf("%s: teach this test its kind", f.FullName())
				continue
			}
			got := string(session.ReportMessage(node, changed))
			if same, ok := seen[got]; ok {
				t.Errorf("with another %s the message is that of %s", f.FullName(), same)
			}
			seen[got] = string(f.FullName())
		}
	}
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.ProtoReflect() }, "done", "progress", "signature")
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.GetReady().ProtoReflect() })
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.GetFailed().ProtoReflect() })
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.GetHeld()[0].ProtoReflect() })
}

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
