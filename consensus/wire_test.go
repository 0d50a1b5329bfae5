package consensus

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/state"
)

func TestParseAddress(t *testing.T) {
	for in, ok := range map[string]bool{
		"id1@host:1": true, "id1@[::1]:30303": true, "id1@10.0.0.1:30303": true,
		"": false, "host:1": false, "@host:1": false, "id1@": false, "id1@host": false, "id1@:1": false,
		"id1@host:": false, "a b@host:1": false, "id1@a@b:1": false,
	} {
		id, hostport, err := ParseAddress(in)
		if (err == nil) != ok {
			t.Errorf("%q: got %v", in, err)
		}
		if err == nil && FormatAddress(id, hostport) != in {
			t.Errorf("%q became %q", in, FormatAddress(id, hostport))
		}
	}
}

func FuzzDecodeJoin(f *testing.F) {
	var b bytes.Buffer
	if err := EncodeJoin(&b, JoinRequest{Name: "a", Address: "id@h:1"}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeJoin(bytes.NewReader(b))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := EncodeJoin(&out, got); err != nil {
			return // JSON may grow over the limit by its escapes
		}
		again, err := DecodeJoin(&out)
		if err != nil || !cmp.Equal(got, again) {
			t.Fatalf("%+v became %+v, %v", got, again, err)
		}
	})
}

func FuzzReadSnapshot(f *testing.F) {
	var b bytes.Buffer
	if err := writeSnapshot(&b, &view{state: state.New(), index: 7}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := readSnapshot(bytes.NewReader(b))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := writeSnapshot(&out, v); err != nil || !bytes.Equal(out.Bytes(), b) {
			t.Fatalf("%q became %q, %v", b, out.Bytes(), err)
		}
	})
}

func decodeAsked[T any](b []byte) (T, error) {
	var out T
	return out, jsonCodec{}.Unmarshal(b, &out)
}

func FuzzDecodePassed(f *testing.F) {
	f.Add([]byte(`{"peer":{"peer_id":"id","role":"sn"},"request":{"name":"a","address":"id@h:1"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeAsked[joinPassed](b)
		if err != nil {
			return
		}
		out, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeAsked[joinPassed](out)
		if len(out) <= maxJoin && (err != nil || !cmp.Equal(got, again)) {
			t.Fatalf("%+v became %+v, %v", got, again, err)
		}
	})
}
