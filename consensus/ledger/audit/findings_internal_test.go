package audit

import "testing"

// TestRecordsDatedBackAreCounted: those that are not named too. One that is a little early is none: clocks of SNs differ.
func TestRecordsDatedBackAreCounted(t *testing.T) {
	r := &Report{}
	f := &findings{report: r}
	late := 2 * clockSlack.Milliseconds()
	f.at(late)
	f.at(late / 2)
	for range 23 {
		f.at(late/2 - 1)
	}
	if len(r.Backwards) != 20 || r.MoreBackwards != 3 {
		t.Errorf("%d are named, %d more", len(r.Backwards), r.MoreBackwards)
	}
}
