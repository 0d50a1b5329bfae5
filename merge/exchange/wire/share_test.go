package wire

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"
)

func TestSharesRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 3, 300} { // 300 have more pairs than fit into one buffer
		s := Share{make([]float64, Pairs(n)), make([]Norm, n)}
		for i := range s.Sums {
			s.Sums[i] = float64(i) * 1e290
		}
		for i := range s.Norms {
			s.Norms[i] = Norm{float64(i), [SealSize]byte{byte(i)}}
		}
		b := s.AppendFrame(nil)
		if h := DecodeHeader([HeaderSize]byte(b)); h != SumsHeader(n) || int(h.Length) != len(b)-HeaderSize {
			t.Errorf("%d contributors: header %+v, %d bytes", n, h, len(b))
		}
		got, err := ReadShare(bytes.NewReader(b[HeaderSize:]), n)
		if err != nil || !got.Equal(s) {
			t.Errorf("%d contributors: got %d sums, %v", n, len(got.Sums), err)
		}
		if _, err := ReadShare(bytes.NewReader(b[HeaderSize:len(b)-1]), n); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d contributors, cut short: got %v", n, err)
		}
	}
}

func TestSumsThatAreNoneAreRefused(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1e-300, 2e300} {
		for name, b := range map[string][]byte{
			"distance": Share{[]float64{1, v, 2}, make([]Norm, 3)}.AppendFrame(nil),
			"norm":     Share{[]float64{1}, []Norm{{Squares: 1}, {Squares: v}}}.AppendFrame(nil),
		} {
			n := int(DecodeHeader([HeaderSize]byte(b)).Arg)
			if _, err := ReadShare(bytes.NewReader(b[HeaderSize:]), n); !errors.Is(err, ErrFrame) {
				t.Errorf("%s %g: got %v, want a broken frame", name, v, err)
			}
		}
	}
}
