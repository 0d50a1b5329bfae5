package statement_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/session/statement"
)

// TestASignatureCoversAllThatASessionSays: a field that is new is covered too.
func TestASignatureCoversAllThatASessionSays(t *testing.T) {
	whole := &swarmv1.SessionReport{
		Session: "s", Contract: "c", Run: 1, Number: 2, Ready: &swarmv1.Ready{Refuses: []string{"n"}}, Failed: &swarmv1.Failed{Unreached: &swarmv1.Unreached{}}, Unreached: []*swarmv1.Unreached{{}}, Held: []*swarmv1.HeldModel{{}}, Proofs: []*swarmv1.RoundProof{{}}, Trained: &swarmv1.Trained{},
		Done: &swarmv1.Done{
			ShardDigests: []string{"a"}, UpdateSquares: []float64{1}, Seals: [][]byte{{1}},
			Claims: []*swarmv1.MergeClaim{{Merged: make([]byte, 32), Inputs: []*swarmv1.MergeInput{{Digest: make([]byte, 32)}}}},
		},
	}
	const node = "n"
	message := func(node string, r *swarmv1.SessionReport) string {
		said, err := onwire.FromReport(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(statement.Message(node, said))
	}
	seen := map[string]string{message(node, whole): "the whole", message("m", whole): "another node"}
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
			case f.Kind() == protoreflect.BoolKind:
				m.Set(f, protoreflect.ValueOfBool(true))
			case f.Kind() == protoreflect.DoubleKind:
				m.Set(f, protoreflect.ValueOfFloat64(7))
			case f.Kind() == protoreflect.BytesKind:
				m.Set(f, protoreflect.ValueOfBytes([]byte(strings.Repeat("o", 32))))
			case f.Kind() == protoreflect.BoolKind:
				m.Set(f, protoreflect.ValueOfBool(true))
			case f.Kind() == protoreflect.Uint32Kind:
				m.Set(f, protoreflect.ValueOfUint32(7))
			case f.Kind() == protoreflect.Uint64Kind:
				m.Set(f, protoreflect.ValueOfUint64(7))
			default:
				t.Errorf("%s: teach this test its kind", f.FullName())
				continue
			}
			got := message(node, changed)
			if same, ok := seen[got]; ok {
				t.Errorf("with another %s the message is that of %s", f.FullName(), same)
			}
			seen[got] = string(f.FullName())
		}
	}
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.ProtoReflect() }, "progress", "signature")
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.GetDone().ProtoReflect() })
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.GetDone().GetClaims()[0].ProtoReflect() })
	check(func(r *swarmv1.SessionReport) protoreflect.Message {
		return r.GetDone().GetClaims()[0].GetInputs()[0].ProtoReflect()
	})
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.GetReady().ProtoReflect() })
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.GetFailed().ProtoReflect() })
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.GetTrained().ProtoReflect() })
	check(func(r *swarmv1.SessionReport) protoreflect.Message {
		return r.GetFailed().GetUnreached().ProtoReflect()
	})
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.GetUnreached()[0].ProtoReflect() })
	check(func(r *swarmv1.SessionReport) protoreflect.Message { return r.GetHeld()[0].ProtoReflect() })
}
