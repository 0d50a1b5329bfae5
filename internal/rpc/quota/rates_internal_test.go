package quota

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestRates(t *testing.T) {
	now := time.Unix(1000, 0)
	r := NewRates(func() time.Time { return now })
	bytes := 0
	for err := error(nil); err == nil; {
		if err = r.TakeLayout("sl-0", 1<<20); err == nil {
			bytes += 1 << 20
		}
	}
	if bytes != 16<<20 {
		t.Errorf("%d bytes at once", bytes)
	}
	if now = now.Add(32 * time.Second); r.TakeLayout("sl-0", 1<<20) != nil || r.TakeLayout("sl-0", 1000) == nil {
		t.Error("not a MiB in 32 s")
	}
	for i := range 20_000 {
		if err := r.TakeProposal(fmt.Sprint(i)); err != nil && !errors.Is(err, ErrTooFast) {
			t.Fatal(err)
		}
	}
	if n := r.taken.Len(); n > 16<<10 {
		t.Errorf("%d buckets", n)
	}
	if now = now.Add(time.Hour); r.TakeProposal("late") != nil || r.taken.Len() > 1 {
		t.Errorf("%d buckets after an hour", r.taken.Len())
	}
}
