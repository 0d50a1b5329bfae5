package exchange

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/swarmd/swarmd/merge"
)

// TestBundlesAreAllLeavesOnce: whatever the runs and what is skipped, each leaf that is not is in one bundle, in order, and all bundles but
// the last are of leaves with the same index divided by their number.
func TestBundlesAreAllLeavesOnce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var rs runs
		for at := 0; len(rs) < 1+rnd.IntN(4); {
			at += rnd.IntN(5)
			n := 1 + rnd.IntN(20)
			rs = append(rs, merge.Shard{First: at, Leaves: n})
			at += n
		}
		per, skip := 1+rnd.IntN(8), newBitmap(rs.count())
		var want, got []int
		for k, leaf := range rs.all() {
			if rnd.IntN(3) == 0 {
				skip.set(k)
			} else {
				want = append(want, leaf)
			}
		}
		for first, leaves := range rs.bundles(per, skip) {
			if first%per != 0 {
				t.Fatalf("a bundle of %d begins at index %d", per, first)
			}
			for _, leaf := range leaves {
				if rs.index(leaf)/per != first/per || !slices.Contains(rs.bundle(leaf, per), leaf) {
					t.Fatalf("leaf %d of index %d is in the bundle of index %d of %d", leaf, rs.index(leaf), first, per)
				}
			}
			got = append(got, leaves...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("runs %v in bundles of %d without %x: %v, want %v", rs, per, skip, got, want)
		}
	}
}

// writes is a stream that keeps each write.
type writes struct {
	Stream
	all [][]byte
}

func (w *writes) Write(b []byte) (int, error) {
	w.all = append(w.all, bytes.Clone(b))
	return len(b), nil
}

func (w *writes) WriteFrame(head, b []byte) (int, error) { return w.Write(slices.Concat(head, b)) }

func (w *writes) SetWriteDeadline(time.Time) error { return nil }

// TestWhatIsHeldGoesWithWhatFollows: in order, as one write, and nothing of what could not be made.
func TestWhatIsHeldGoesWithWhatFollows(t *testing.T) {
	w := &writes{}
	c := newConn(w, time.Second)
	c.holdFrames([]byte("ab"))
	failed := errors.New("not read")
	if err := c.hold(3, func(b []byte) ([]byte, error) { return append(b, "xyz"...), failed }); !errors.Is(err, failed) {
		t.Errorf("held %v, want that error", err)
	}
	c.holdFrames([]byte("c"))
	if len(w.all) != 0 {
		t.Errorf("%q were written before anything followed", w.all)
	}
	for _, do := range []func() error{
		func() error { return c.writeFrame([]byte("d"), []byte("e"), true) },
		func() error { return c.write([]byte("f"), false) },
		func() error { return c.flush(true) }, // nothing
		func() error { c.holdFrames([]byte("g")); return c.flush(true) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	if want := [][]byte{[]byte("abcde"), []byte("f"), []byte("g")}; !slices.EqualFunc(w.all, want, bytes.Equal) {
		t.Errorf("wrote %q, want %q", w.all, want)
	}
}

// TestALargeLeafThatIsHeldGoesInPieces: a peer on a slow link takes each within the stall time.
func TestALargeLeafThatIsHeldGoesInPieces(t *testing.T) {
	w := &writes{}
	c := newConn(w, time.Second)
	leaf := bytes.Repeat([]byte("0123456789abcdef"), merge.MaxLeafSize/16)
	c.holdFrames(leaf)
	if err := c.write([]byte("end"), true); err != nil {
		t.Fatal(err)
	}
	for _, b := range w.all {
		if len(b) > writeSize+heldBeside {
			t.Errorf("a write has %d bytes", len(b))
		}
	}
	if got := slices.Concat(w.all...); !bytes.Equal(got, append(leaf, "end"...)) {
		t.Errorf("%d bytes were written, other than %d", len(got), len(leaf)+3)
	}
}
