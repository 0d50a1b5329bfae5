package leafio

import (
	"testing"

	"github.com/swarmd/swarmd/merge"
)

func layout(t *testing.T, leaves int) *merge.Layout {
	t.Helper()
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{int64(leaves) * merge.MaxLeafSize / 4}}})
	if err != nil {
		t.Fatal(err)
	}
	return l.WithLeafSize(merge.MaxLeafSize)
}

// TestRingGivesLeavesInOrder: what comes is there when its turn is, and a ring that is full has no buffer until one comes back.
func TestRingGivesLeavesInOrder(t *testing.T) {
	r := NewRing(layout(t, 10))
	for leaf := range minRing {
		b := r.Buffer()
		b[0] = byte(leaf)
		r.Put(leaf, b)
	}
	if r.Buffer() != nil {
		t.Error("a ring that is full has another buffer")
	}
	if b, later := r.Peek(0); b != nil || later {
		t.Error("there is a leaf before one was waited for")
	}
	for leaf := range 2 {
		if !r.Wait(t.Context().Done()) {
			t.Fatal("no leaf came")
		}
		if b, later := r.Peek(leaf); b == nil || b[0] != byte(leaf) || len(b) != merge.MaxLeafSize || later {
			t.Fatalf("leaf %d is not the next one", leaf)
		}
		if b, later := r.Peek(leaf - 1); b != nil || !later {
			t.Errorf("leaf %d is not behind the one before it", leaf)
		}
		r.Release()
	}
	if r.Buffer() == nil || len(r.Freed()) != 1 {
		t.Error("buffers did not come back")
	}
	r.Wait(t.Context().Done())
	var left []int
	r.Drain(func(leaf int, b []byte) {
		if b[0] != byte(leaf) {
			t.Errorf("leaf %d has other bytes", leaf)
		}
		left = append(left, leaf)
	})
	if len(left) != 2 || left[0] != 2 || left[1] != 3 || !r.Empty() {
		t.Errorf("%v were left", left)
	}
}

func TestRingWakesWhoWaits(t *testing.T) {
	r, done := NewRing(layout(t, 1)), make(chan struct{})
	r.Wake()
	r.Wake() // nobody has looked since
	if !r.Wait(done) {
		t.Error("nobody was woken")
	}
	close(done)
	if r.Wait(done) {
		t.Error("a leaf came after the end")
	}
}
