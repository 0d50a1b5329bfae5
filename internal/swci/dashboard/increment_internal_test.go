package dashboard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// past is a history of rounds up to last in a run.
func past(run, last uint64) Document {
	var rounds []string
	for n := uint64(1); n <= last; n++ {
		rounds = append(rounds, fmt.Sprintf(`{"round":%d}`, n))
	}
	return Document{Name: "history/c", Value: json.RawMessage(fmt.Sprintf(`{"contract":"c","run":%d,"rounds":[%s],"thinned":0,"recorded":[],"reported":[]}`, run, strings.Join(rounds, ",")))}
}

// TestIncrement: a page is told a history once, then what is new with a few rounds before; all of it again when the contract was reset.
func TestIncrement(t *testing.T) {
	told := func(d Document) (after *uint64, rounds int) {
		t.Helper()
		var v struct {
			After  *uint64
			Rounds []struct{ Round uint64 }
		}
		if err := json.Unmarshal(d.Value, &v); err != nil {
			t.Fatalf("%v: %s", err, d.Value)
		}
		return v.After, len(v.Rounds)
	}
	d, has := increment(past(1, 100), reached{})
	if after, n := told(d); after != nil || n != 100 || has != (reached{1, 100}) {
		t.Errorf("first: %v, %d, %v", after, n, has)
	}
	d, has = increment(past(1, 103), has)
	if after, n := told(d); after == nil || *after != 92 || n != 11 || has != (reached{1, 103}) {
		t.Errorf("then: %v, %d, %v", after, n, has)
	}
	d, has = increment(past(2, 3), has)
	if after, n := told(d); after != nil || n != 3 || has != (reached{2, 3}) {
		t.Errorf("after a reset: %v, %d, %v", after, n, has)
	}
	for _, other := range []Document{{Name: "nodes", Value: json.RawMessage(`{"run":1}`)}, {Name: "history/c", Error: "x"}, {Name: "history/c", Value: json.RawMessage(`[]`)}} {
		got, is := increment(other, has)
		if string(got.Value) != string(other.Value) || (is == reached{}) != (other.Name == "history/c") {
			t.Errorf("%+v became %+v, and %v", other, got, is)
		}
	}
	_, has = increment(Document{Name: "history/c", Error: "x"}, has)
	if after, n := told(first(increment(past(2, 30), has))); after != nil || n != 30 {
		t.Errorf("after an error: %v, %d", after, n)
	}
}

func first(d Document, _ reached) Document { return d }
