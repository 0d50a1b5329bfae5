package exchange

import "testing"

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
