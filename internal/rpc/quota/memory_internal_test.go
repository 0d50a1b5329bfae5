package quota

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestBudgetBoundsEachSPIFFEIDAndAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewMemory(100, 60, 0)
		take := func(id string, n int64) (func(), error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return b.Take(ctx, Taker{ID: id}, n)
		}
		first, err := take("a", 50)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := take("a", 20); !errors.Is(err, ErrBusy) {
			t.Errorf("beyond the bound of an ID: %v", err)
		}
		if _, err := take("a", 10); err != nil {
			t.Errorf("a small call behind large ones: %v", err)
		}
		other, err := take("b", 40)
		if err != nil {
			t.Errorf("another ID: %v", err)
		}
		if _, err := take("c", 1); !errors.Is(err, ErrBusy) {
			t.Errorf("beyond the bound of all: %v", err)
		}
		got := make(chan error)
		go func() {
			give, err := take("c", 1000) // more than there ever is: it gets what an ID may have
			if err == nil {
				give()
			}
			got <- err
		}()
		synctest.Wait()
		first()
		other()
		if err := <-got; err != nil {
			t.Errorf("who waits while others finish: %v", err)
		}
		if b.used != 10 || len(b.by) != 1 {
			t.Errorf("%d bytes of %v are left, want 10 of a", b.used, b.by)
		}
	})
}

// TestOthersFindSomeOfABudget: many nodes of two SPIFFE IDs, one after the other, take what they get, and the next one finds some.
func TestOthersFindSomeOfABudget(t *testing.T) {
	const inAll, each, call = 1 << 20, 1 << 16, 1 << 10
	b := NewMemory(inAll, each, 3)
	now, cancel := context.WithCancel(t.Context())
	cancel() // nobody waits
	var gives []func()
	for _, id := range []string{"a", "b", "c"} {
		taken := int64(0)
		for node := range 2 * inAll / each {
			for {
				give, err := b.Take(now, Taker{id, strconv.Itoa(node)}, call)
				if err != nil {
					break
				}
				gives = append(gives, give)
				taken += call
			}
		}
		if taken == 0 {
			t.Errorf("%s finds none, %d of %d are taken", id, b.used, inAll)
		}
		if id == "a" && (taken > inAll*3/4 || taken < inAll*3/4-call) {
			t.Errorf("alone it has %d of %d, want three quarters", taken, inAll)
		}
	}
	for _, give := range gives {
		give()
	}
	if b.used != 0 || len(b.by) != 0 || len(b.byID) != 0 {
		t.Errorf("%d bytes are left, of %v", b.used, b.byID)
	}
}
