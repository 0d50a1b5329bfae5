package inventory

import (
	"errors"
	"testing"

	"github.com/swarmd/swarmd/merge/exchange/wire"
)

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

// TestAnOwnerThatChangesItsDistancesIsBlamed holds that what an owner said of distances stays within a round.
func TestAnOwnerThatChangesItsDistancesIsBlamed(t *testing.T) {
	p := NewDistances(2, 1, NewSignal())
	said := func(sum, squares float64) error {
		return p.SetShare(1, wire.Share{Sums: []float64{1, sum}, Norms: []wire.Norm{{Squares: squares}}})
	}
	for _, tt := range []struct {
		sum, squares float64
		want         error
	}{{2, 1, nil}, {2, 1, nil}, {3, 1, errOtherSums}, {2, 2, errOtherSums}} {
		if err := said(tt.sum, tt.squares); !errors.Is(err, tt.want) {
			t.Errorf("%+v: got %v", tt, err)
		}
	}
	for _, want := range []error{nil, nil, errOtherNorm} {
		n := wire.Norm{Squares: 1}
		if want != nil {
			n.Squares = 2
		}
		if err := p.SetNorm(1, n); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
