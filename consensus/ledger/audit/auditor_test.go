package audit_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
)

// TestAuditorGoesOn: a ledger that comes in parts is judged as one that is read at once, whatever is wrong with it, also with reports in between
// and after a part that has broken off within a record.
func TestAuditorGoesOn(t *testing.T) {
	b, o := genuine(t)
	forged := bytes.Replace(b.bytes, []byte(`"weight":`), []byte(`"weight":1`), 1)
	twice := append(bytes.Clone(b.bytes), b.bytes...)
	long := append(bytes.Clone(b.bytes), append(bytes.Repeat([]byte("x"), ledger.MaxRecord+1), '\n')...)
	for name, raw := range map[string][]byte{"genuine": b.bytes, "forged": forged, "again from its start": twice, "no record": append(bytes.Clone(b.bytes), "{}\n"...), "a long line": long} {
		want := verify(t, raw, o)
		for _, step := range []int{len(raw), 1000, 7919} {
			a := audit.New(o)
			for n := 0; n < len(raw) && !a.Ended(); n += step {
				if _, err := a.Write(raw[n:min(len(raw), n+step)]); err != nil && !errors.Is(err, audit.ErrEnded) {
					t.Fatal(err)
				}
				if n%3 == 0 {
					a.Report()
				}
			}
			if got := a.Report(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %d bytes at a time: %d records and %v, want %d and %v", name, step, got.Records, got.Problems, want.Records, want.Problems)
			}
			if _, err := a.Write(raw[:1]); a.Ended() != errors.Is(err, audit.ErrEnded) || a.Ended() != (name != "genuine") {
				t.Errorf("%s ended: %v, %v", name, a.Ended(), err)
			}
		}
	}
	a := audit.New(o)
	half := len(b.bytes) / 2
	for a.Bytes() < uint64(len(b.bytes)) {
		from := int(a.Bytes())
		if _, err := a.Write(b.bytes[from:max(half, min(len(b.bytes), from+5000))]); err != nil {
			t.Fatal(err)
		}
		a.Drop()
	}
	if r := a.Report(); !r.Good() || r.Head != b.head.Hash {
		t.Errorf("after a part that has broken off: %v", r.Problems)
	}
}
