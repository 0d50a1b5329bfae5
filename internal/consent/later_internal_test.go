package consent

import (
	"strconv"
	"testing"
	"time"
)

// TestThoseThatNobodyAsksForAreForgotten first: those that wait keep since when they do, however many others come.
func TestThoseThatNobodyAsksForAreForgotten(t *testing.T) {
	w, began := waiting{}, time.Unix(1, 0)
	put := func(i int, now time.Time) postponed {
		p, _ := w.put(strconv.Itoa(i), 1, Verdict{Decision: Later}, nil, now)
		return p
	}
	for i := range 10 * maxLater {
		now := began.Add(time.Duration(i) * time.Second)
		for waits := range min(i, 50) { // of which none is ever forgotten
			if p := put(waits, now); !p.since.Equal(began.Add(time.Duration(waits) * time.Second)) {
				t.Fatalf("at %d: %d waits since %v", i, waits, p.since)
			}
		}
		put(i, now)
		if len(w) > maxLater {
			t.Fatalf("%d are remembered", len(w))
		}
	}
}
