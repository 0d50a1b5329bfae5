package bench

import (
	"context"
	"testing"
	"time"
)

// TestRoundsAreComparedWithWhatStoodNextToThem: a machine that becomes half as fast in the middle has the same efficiency.
func TestRoundsAreComparedWithWhatStoodNextToThem(t *testing.T) {
	speeds := []float64{100, 100, 50, 50}
	y := &yardstick{speed: func(context.Context, time.Duration) (float64, error) {
		v := speeds[0]
		speeds = speeds[1:]
		return v, nil
	}}
	marks := []struct {
		rounds int
		must   bool
	}{{0, true}, {1, false}, {2, true}, {3, true}, {4, false}, {5, true}} // without must: less than a second has passed
	for _, m := range marks {
		if err := y.mark(t.Context(), m.rounds, m.must); err != nil {
			t.Fatal(err)
		}
	}
	r := Result{Peers: 2, Bytes: 100}
	r.judge([]float64{4, 4, 5.5, 8, 8}, y)
	if r.Efficiency != 0.5 || r.RoundMedian != 5.5 || r.TLSBytesPerSecond != 75 || r.ModelSeconds != 200.0/75 {
		t.Errorf("efficiency %g, median %g s, TLS %g, model %g s", r.Efficiency, r.RoundMedian, r.TLSBytesPerSecond, r.ModelSeconds)
	}
}
