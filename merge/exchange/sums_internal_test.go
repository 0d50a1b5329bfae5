package exchange

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
)

func TestSumsRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 3, 300} { // 300 have more pairs than fit into one buffer
		sums := make([]float64, pairs(n))
		for i := range sums {
			sums[i] = float64(i) * 1e290
		}
		b := appendSums(nil, n, sums)
		if h := decodeHeader([headerSize]byte(b)); h != sumsHeader(n) || int(h.length) != len(b)-headerSize {
			t.Errorf("%d contributors: header %+v, %d bytes", n, h, len(b))
		}
		got, err := readSums(bytes.NewReader(b[headerSize:]), n)
		if err != nil || !slices.Equal(got, sums) {
			t.Errorf("%d contributors: got %d sums, %v", n, len(got), err)
		}
		if n > 1 {
			if _, err := readSums(bytes.NewReader(b[headerSize:len(b)-1]), n); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d contributors, cut short: got %v", n, err)
			}
		}
	}
}

func TestSumsThatAreNoneAreRefused(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1e-300, 2e300} {
		b := appendSums(nil, 3, []float64{1, v, 2})
		if _, err := readSums(bytes.NewReader(b[headerSize:]), 3); !errors.Is(err, errFrame) {
			t.Errorf("%g: got %v, want a broken frame", v, err)
		}
	}
}
