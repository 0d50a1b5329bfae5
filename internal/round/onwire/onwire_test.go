package onwire_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
)

// fill sets all fields of a message but those of these names, to values that differ, and gives lists two elements.
func fill(t *testing.T, m protoreflect.Message, n *uint64, except ...protoreflect.Name) {
	t.Helper()
	value := func(f protoreflect.FieldDescriptor) protoreflect.Value {
		*n++
		switch f.Kind() {
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(strings.Repeat("s", int(*n)))
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes(slices.Repeat([]byte{byte(*n)}, 32)) // of a digest
		case protoreflect.DoubleKind:
			return protoreflect.ValueOfFloat64(float64(*n) + 0.5)
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(true)
		case protoreflect.Uint32Kind:
			return protoreflect.ValueOfUint32(uint32(*n))
		case protoreflect.Uint64Kind:
			return protoreflect.ValueOfUint64(*n)
		case protoreflect.Int32Kind:
			return protoreflect.ValueOfInt32(int32(*n))
		case protoreflect.Int64Kind:
			return protoreflect.ValueOfInt64(int64(*n))
		}
		t.Fatalf("%s: teach this test its kind", f.FullName())
		return protoreflect.Value{}
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case slices.Contains(except, f.Name()):
		case f.IsList() && f.Message() != nil:
			for range 2 {
				fill(t, m.Mutable(f).List().AppendMutable().Message(), n, except...)
			}
		case f.IsList():
			m.Mutable(f).List().Append(value(f))
			m.Mutable(f).List().Append(value(f))
		case f.Message() != nil:
			fill(t, m.Mutable(f).Message(), n, except...)
		default:
			m.Set(f, value(f))
		}
	}
}

// TestReportsKeepAll: nothing of a report is lost on its way, proofs included.
func TestReportsKeepAll(t *testing.T) {
	var n uint64
	want := &swarmv1.SessionReport{}
	fill(t, want.ProtoReflect(), &n, "final", "planned_unix_ms") // which are no part of a round's proof
	r, err := onwire.FromReport(want)
	if err != nil {
		t.Fatal(err)
	}
	if got := onwire.Report(r); !proto.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if got, err := onwire.FromReport(&swarmv1.SessionReport{}); err != nil || !reflect.DeepEqual(got, &round.Report{}) {
		t.Errorf("of an empty report: %+v, %v", got, err)
	}
	for _, c := range []*swarmv1.MergeClaim{
		{},
		{Merged: make([]byte, 33)},
		{Merged: make([]byte, 32), Sums: make([]byte, 31)},
		{Merged: make([]byte, 32), Inputs: []*swarmv1.MergeInput{{}}},
	} {
		if _, err := onwire.FromReport(&swarmv1.SessionReport{Done: &swarmv1.Done{Claims: []*swarmv1.MergeClaim{c}}}); err == nil {
			t.Errorf("digests of another length are taken: %v", c)
		}
	}
	raw, err := onwire.ProofFile(r.Proofs[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, err := onwire.FromProofFile(raw); err != nil || !reflect.DeepEqual(got, r.Proofs[0]) {
		t.Errorf("proof is read as %+v, %v; want %+v", got, err, r.Proofs[0])
	}
}

// unset names the fields of a value that are zero, those of what it points to and of its lists' elements too.
func unset(v reflect.Value, at string) (out []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return unset(v.Elem(), at)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out = append(out, unset(v.Field(i), at+"."+v.Type().Field(i).Name)...)
		}
		return out
	case reflect.Slice:
		for i := range v.Len() {
			out = append(out, unset(v.Index(i), at)...)
		}
	}
	if v.IsZero() {
		out = append(out, at)
	}
	return out
}

// TestNothingIsForgotten: each field of what is read has come from a message that sets all, and each of what is sent from one that does.
func TestNothingIsForgotten(t *testing.T) {
	var n uint64
	view, answer := &swarmv1.ContractView{}, &swarmv1.ReportResponse{}
	fill(t, view.ProtoReflect(), &n, "packed")
	fill(t, answer.ProtoReflect(), &n)
	for what, got := range map[string]any{"View": onwire.View(view), "Answer": onwire.Answer(answer)} {
		if forgotten := unset(reflect.ValueOf(got), what); len(forgotten) > 0 {
			t.Errorf("not set: %v", forgotten)
		}
	}
	if v := onwire.View(nil); !reflect.DeepEqual(v, &round.View{}) {
		t.Errorf("no view is %+v", v)
	}
}

// TestRecordsAreInTheAPIsJSON: a node's own records have what a session was opened with as the API's JSON has it, in both directions.
func TestRecordsAreInTheAPIsJSON(t *testing.T) {
	var n uint64
	sent := &swarmv1.OpenSessionRequest{}
	fill(t, sent.ProtoReflect(), &n, "leaves") // only in answers
	progress := &swarmv1.Progress{}
	fill(t, progress.ProtoReflect(), &n)
	for _, tt := range []struct {
		message proto.Message
		read    any
		sent    func(any) proto.Message
	}{
		{sent, &round.Open{}, func(x any) proto.Message { return onwire.Open(x.(*round.Open)) }},
		{&swarmv1.OpenSessionRequest{Terms: &swarmv1.Terms{}}, &round.Open{}, func(x any) proto.Message { return onwire.Open(x.(*round.Open)) }},
		{progress, &round.Progress{}, func(x any) proto.Message { return onwire.Report(&round.Report{Progress: x.(*round.Progress)}).Progress }},
		{&swarmv1.Progress{}, &round.Progress{}, func(x any) proto.Message { return onwire.Report(&round.Report{Progress: x.(*round.Progress)}).Progress }},
	} {
		b, err := protojson.Marshal(tt.message)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, tt.read); err != nil {
			t.Fatal(err)
		}
		if got := tt.sent(tt.read); !proto.Equal(got, tt.message) {
			t.Errorf("%s is read as %v", b, got)
		}
		if b, err = json.Marshal(tt.read); err != nil {
			t.Fatal(err)
		}
		got := tt.message.ProtoReflect().New().Interface()
		if err := protojson.Unmarshal(b, got); err != nil {
			t.Fatal(err)
		}
		if o, ok := got.(*swarmv1.OpenSessionRequest); ok && o.Terms == nil {
			o.Terms = &swarmv1.Terms{}
		}
		if !proto.Equal(got, tt.message) {
			t.Errorf("%s is read by others as %v", b, got)
		}
	}
}
