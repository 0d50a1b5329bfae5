package wire

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/swarmd/swarmd/merge"
)

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
	c := NewConn(w, time.Second)
	c.BufferFrames([]byte("ab"))
	failed := errors.New("not read")
	if err := c.Buffer(3, func(b []byte) ([]byte, error) { return append(b, "xyz"...), failed }); !errors.Is(err, failed) {
		t.Errorf("held %v, want that error", err)
	}
	c.BufferFrames([]byte("c"))
	if len(w.all) != 0 {
		t.Errorf("%q were written before anything followed", w.all)
	}
	for _, do := range []func() error{
		func() error { return c.WriteFrame([]byte("d"), []byte("e"), true) },
		func() error { return c.Write([]byte("f"), false) },
		func() error { return c.Flush(true) }, // nothing
		func() error { c.BufferFrames([]byte("g")); return c.Flush(true) },
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
	c := NewConn(w, time.Second)
	leaf := bytes.Repeat([]byte("0123456789abcdef"), merge.MaxLeafSize/16)
	c.BufferFrames(leaf)
	if err := c.Write([]byte("end"), true); err != nil {
		t.Fatal(err)
	}
	for _, b := range w.all {
		if len(b) > WriteSize+bufferSlack {
			t.Errorf("a write has %d bytes", len(b))
		}
	}
	if got := slices.Concat(w.all...); !bytes.Equal(got, append(leaf, "end"...)) {
		t.Errorf("%d bytes were written, other than %d", len(got), len(leaf)+3)
	}
}
