package exchange

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"
)

func TestSharesRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 3, 300} { // 300 have more pairs than fit into one buffer
		s := share{make([]float64, pairs(n)), make([]norm, n)}
		for i := range s.sums {
			s.sums[i] = float64(i) * 1e290
		}
		for i := range s.norms {
			s.norms[i] = norm{float64(i), [SealSize]byte{byte(i)}}
		}
		b := s.appendFrame(nil)
		if h := decodeHeader([headerSize]byte(b)); h != sumsHeader(n) || int(h.length) != len(b)-headerSize {
			t.Errorf("%d contributors: header %+v, %d bytes", n, h, len(b))
		}
		got, err := readShare(bytes.NewReader(b[headerSize:]), n)
		if err != nil || !got.equal(s) {
			t.Errorf("%d contributors: got %d sums, %v", n, len(got.sums), err)
		}
		if _, err := readShare(bytes.NewReader(b[headerSize:len(b)-1]), n); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d contributors, cut short: got %v", n, err)
		}
	}
}

func TestSumsThatAreNoneAreRefused(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1e-300, 2e300} {
		for name, b := range map[string][]byte{
			"distance": unsigned(3, 1, v, 2),
			"norm":     share{[]float64{1}, []norm{{squares: 1}, {squares: v}}}.appendFrame(nil),
		} {
			n := int(decodeHeader([headerSize]byte(b)).arg)
			if _, err := readShare(bytes.NewReader(b[headerSize:]), n); !errors.Is(err, errFrame) {
				t.Errorf("%s %g: got %v, want a broken frame", name, v, err)
			}
		}
	}
}

// TestDistancesLieBetweenNorms holds the bounds to vectors whose distances are known.
func TestDistancesLieBetweenNorms(t *testing.T) {
	slack := rounding(1 << 30)
	for _, tt := range []struct{ x, y, low, high float64 }{
		{0, 0, 0, 0},
		{1, 0, 1, 1},
		{4, 1, 1, 9},
		{1e12, 1, 0.999998e12, 1.000002000001e12},
		{1e299, 1e299, 0, 4e299},
	} {
		for _, xy := range [][2]float64{{tt.x, tt.y}, {tt.y, tt.x}} {
			low, high := between(xy[0], xy[1], slack)
			if low > tt.low || high < tt.high || low < tt.low*(1-1e-5)-1e-290 || high > tt.high*(1+1e-5)+1e-290 {
				t.Errorf("%g and %g: got %g to %g, want %g to %g", xy[0], xy[1], low, high, tt.low, tt.high)
			}
		}
	}
}
