package exchange_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// late is a stream on which nothing goes quickly.
type late struct{ exchange.Stream }

func (l late) Write(b []byte) (int, error) { time.Sleep(2 * time.Second); return l.Stream.Write(b) }

// TestNaNIsNamedBehindASlowPeer: the norm of the peer with the bad value is there before an owner looks at its leaves.
func TestNaNIsNamedBehindASlowPeer(t *testing.T) {
	l, _, _ := floats(t, 8, 1)
	for _, text := range []string{"mean", "krum(f=1)", "geomedian"} {
		m := canonical(t, text)
		const n = 7
		tr := newTraining(t, m, l, n, true, rand.New(rand.NewPCG(3, 4)))
		a := tr.plan(attempt(t, l, 1, 1, 2, 3, 4, 5, 6, 7))
		bits := math.Float32bits(float32(math.NaN()))
		for k := range int64(4) {
			tr.local[4].b[int64(2*merge.MaxLeafSize)+400+k] = byte(bits >> (8 * k))
		}
		synctest.Test(t, func(t *testing.T) {
			s := tr.join(newSwarm(t, n, exchange.Config{}))
			s.wrap = func(from, to int, st exchange.Stream) exchange.Stream {
				if from == 2 {
					return late{st}
				}
				return st
			}
			for i, o := range s.runAll(t.Context(), a, tr.local, tr.merged) {
				if blamed(o.err) != 4 {
					t.Errorf("%s: participant %d: got %v, want blame of 4", text, i, o.err)
				}
			}
		})
	}
}

// TestLargestValuesHaveNoNorm has equal models whose squares no float holds: their distance is 0 all the same.
func TestLargestValuesHaveNoNorm(t *testing.T) {
	l, err := merge.NewLayout([]merge.Tensor{{Name: "mask", DType: merge.Float64, Shape: []int64{4096}}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 5
	m := canonical(t, "krum(f=1)")
	tr := newTraining(t, m, l, n, false, rand.New(rand.NewPCG(3, 4)))
	for _, s := range tr.local {
		for k := 0; k < len(s.b); k += 8 {
			v := math.Float64bits(1)
			if k == 0 {
				v = math.Float64bits(-math.MaxFloat64)
			}
			for j := range 8 {
				s.b[k+j] = byte(v >> (8 * j))
			}
		}
	}
	a := tr.plan(attempt(t, l, 1, 1, 2, 3, 4, 5))
	synctest.Test(t, func(t *testing.T) {
		for i, o := range tr.join(newSwarm(t, n, exchange.Config{})).runAll(t.Context(), a, tr.local, tr.merged) {
			if o.err != nil {
				t.Errorf("participant %d: %v", i, o.err)
			}
		}
	})
}

// TestANumberThatWasMadeUpIsNoEnd: an SN that names an attempt of a number far ahead must not make a node deaf to those there are.
func TestANumberThatWasMadeUpIsNoEnd(t *testing.T) {
	l, local, merged := floats(t, 6, 3)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, 3, exchange.Config{})
		for _, number := range []uint64{1, 1 << 60, 2} {
			mustAll(t, s.runAll(t.Context(), attempt(t, l, number, 1, 1, 1), local, merged))
		}
		for i, o := range s.runAll(t.Context(), attempt(t, l, 2, 1, 1, 1), local, merged) {
			if o.err == nil {
				t.Errorf("participant %d: an attempt ran twice", i)
			}
		}
	})
}
