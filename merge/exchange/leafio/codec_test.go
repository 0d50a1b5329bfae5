package leafio_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// slot is a weight file. It reads nothing from an offset on.
type slot struct {
	b   []byte
	end int64
}

func (s *slot) ReadAt(p []byte, off int64) (int, error) {
	if off >= s.end {
		return 0, io.EOF
	}
	return copy(p, s.b[off:]), nil
}

func (s *slot) WriteAt(p []byte, off int64) (int, error) {
	if off >= s.end {
		return 0, errors.New("full")
	}
	return copy(s.b[off:], p), nil
}

// model returns a layout of two leaves, and a slot that holds v everywhere.
func model(t *testing.T, v float32) (*merge.Layout, *slot) {
	t.Helper()
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{merge.MaxLeafSize/4 + 3}}})
	if err != nil {
		t.Fatal(err)
	}
	l = l.WithLeafSize(merge.MaxLeafSize)
	var b []byte
	for range l.Bytes() / 4 {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return l, &slot{b, int64(len(b))}
}

func method(t *testing.T, text string) *merge.Method {
	t.Helper()
	m, err := merge.ParseMethod(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLeavesArriveAsTheyTravel: whether they are shortened or not, a receiver has what was measured, and what a node that keeps its own
// leaf makes of it.
func TestLeavesArriveAsTheyTravel(t *testing.T) {
	for _, text := range []string{"mean", "mean(wire=bfloat16)"} {
		l, local := model(t, 1.2345678)
		_, base := model(t, 1)
		c := leafio.NewCodec(l, method(t, text), base)
		if c.Shortens() != (text != "mean") || !c.HasBase() {
			t.Errorf("%s: shortens: %v", text, c.Shortens())
		}
		for leaf := range l.Leaves() {
			var measured, came, sent []byte
			frame, err := c.Append(make([]byte, 0, wire.HeaderSize+l.LeafLen(leaf)), local, leaf, func(_ int, x, _ []byte) error {
				measured = bytes.Clone(x)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if h := wire.DecodeHeader([wire.HeaderSize]byte(frame)); h != c.Header(leaf) || int(h.Length) != len(frame)-wire.HeaderSize {
				t.Errorf("%s: leaf %d has the header %+v", text, leaf, h)
			}
			got := make([]byte, l.LeafLen(leaf))
			if err := c.Take(bytes.NewReader(frame[wire.HeaderSize:]), leaf, got, func(b []byte) { came = bytes.Clone(b) }); err != nil {
				t.Fatal(err)
			}
			kept := bytes.Clone(local.b[l.LeafOffset(leaf):][:l.LeafLen(leaf)])
			if err := c.RoundTrip(leaf, kept, func(_ int, b []byte) { sent = bytes.Clone(b) }); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, measured) || !bytes.Equal(got, kept) {
				t.Errorf("%s: leaf %d is not the same for all", text, leaf)
			}
			if !bytes.Equal(came, frame[wire.HeaderSize:]) || !bytes.Equal(came, sent) {
				t.Errorf("%s: leaf %d: other bytes came than travelled", text, leaf)
			}
		}
	}
}

// TestFaultsAreNoPeers: what this node's files do is told apart from what a peer sends.
func TestFaultsAreNoPeers(t *testing.T) {
	l, local := model(t, 2)
	_, base := model(t, 1)
	base.end = l.LeafOffset(1)
	short := leafio.NewCodec(l, method(t, "mean(wire=float16)"), base)
	code := make([]byte, l.LeafLen(1))
	for name, c := range map[string]struct {
		do   func() error
		want string // empty: no fault
	}{
		"a model that ends":   {func() error { return short.ReadBase(1, code) }, "read the committed model: read leaf 1: unexpected EOF"},
		"while one is taken":  {func() error { return short.Take(bytes.NewReader(code), 1, code, nil) }, "read the committed model: read leaf 1: unexpected EOF"},
		"while one is kept":   {func() error { return short.RoundTrip(1, code, nil) }, "read the committed model: read leaf 1: unexpected EOF"},
		"a stream that ends":  {func() error { return short.Take(bytes.NewReader(nil), 0, make([]byte, l.LeafLen(0)), nil) }, ""},
		"a slot that ends":    {func() error { local.end = 0; return leafio.Read(local, l, 0, make([]byte, l.LeafLen(0))) }, ""},
		"with a base at hand": {func() error { return short.WithBase(1, func([]byte) {}) }, "read the committed model: read leaf 1: unexpected EOF"},
	} {
		err, fault := c.do(), (*leafio.Fault)(nil)
		if err == nil || errors.As(err, &fault) != (c.want != "") || fault != nil && (fault.Error() != c.want || fault.Nobody) {
			t.Errorf("%s: got %v, want the fault %q", name, err, c.want)
		}
	}
}

func TestAStepOfNoOptimiserIsNone(t *testing.T) {
	l, merged := model(t, 0)
	m := method(t, "mean")
	if leafio.NewStepper(l, m, leafio.NewCodec(l, m, nil), merged) != nil {
		t.Error("the mean has an optimiser")
	}
}

// TestStepsKeepTheirState: a step from no model, and where its state can't be kept.
func TestStepsKeepTheirState(t *testing.T) {
	l, merged := model(t, 0)
	m := method(t, "fedadam")
	merged.b = make([]byte, l.Bytes()+m.StateBytes(l))
	merged.end = int64(len(merged.b))
	s := leafio.NewStepper(l, m, leafio.NewCodec(l, m, nil), merged)
	_, mean := model(t, 3)
	leaf := mean.b[:l.LeafLen(0)]
	var digest merge.Digest
	keep := func(leaf int, state []byte) (err error) {
		digest, err = s.Keep(leaf, state)
		if err == nil && digest != merge.Sum(state) {
			t.Error("the digest is not the state's")
		}
		return err
	}
	if err := s.Take(0, leaf, keep); err != nil || digest.IsZero() {
		t.Errorf("a step from no model: %v", err)
	}
	merged.end = 0
	fault := (*leafio.Fault)(nil)
	if err := s.Take(0, leaf, keep); !errors.As(err, &fault) || fault.What != "write the optimiser's state" {
		t.Errorf("got %v, want that the state can't be written", err)
	}
	for k := range len(leaf) / 4 {
		binary.LittleEndian.PutUint32(leaf[4*k:], math.Float32bits(float32(math.Inf(1))))
	}
	base := &slot{make([]byte, len(merged.b)), int64(len(merged.b))}
	s = leafio.NewStepper(l, m, leafio.NewCodec(l, m, base), merged)
	if err := s.Take(0, leaf, nil); !errors.As(err, &fault) || !fault.Nobody {
		t.Errorf("got %v, want that nobody is to blame for an infinite step", err)
	}
}
