package exchange_test

import (
	"math"
	"math/rand/v2"
	"sync"
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

// TestAPlanThatWasMadeUpIsAnotherAttempt: one that an SN shows under the number of the leader's keeps no node from that.
func TestAPlanThatWasMadeUpIsAnotherAttempt(t *testing.T) {
	l, local, merged := floats(t, 6, 3)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, 3, exchange.Config{})
		madeUp, planned := attempt(t, l, 2, 3, 1, 1), attempt(t, l, 2, 1, 1, 1)
		for _, a := range []exchange.Attempt{attempt(t, l, 1, 1, 1, 1), madeUp, planned} {
			mustAll(t, s.runAll(t.Context(), a, local, merged))
		}
		for _, a := range []exchange.Attempt{madeUp, planned} {
			for i, o := range s.runAll(t.Context(), a, local, merged) {
				if o.err == nil {
					t.Errorf("participant %d: an attempt ran twice", i)
				}
			}
		}
	})
}

// slow is a slot on a disk that takes its time for each leaf, and counts how often each is read.
type slow struct {
	*slot
	each  time.Duration
	mu    sync.Mutex
	reads map[int64]int
}

func (s *slow) ReadAt(b []byte, off int64) (int, error) {
	time.Sleep(s.each)
	s.mu.Lock()
	s.reads[off]++
	s.mu.Unlock()
	return s.slot.ReadAt(b, off)
}

// slowly gives a hub a slow slot in place of the one with its own weights.
func slowly(s *swarm, hub int, each time.Duration) *slow {
	disk := &slow{each: each, reads: map[int64]int{}}
	give := s.extend
	s.extend = func(i int, slots *exchange.Slots) {
		give(i, slots)
		if i == hub {
			disk.slot = slots.Local.(*slot)
			slots.Local = disk
		}
	}
	return disk
}

// TestANormTakesNoReadOfItsOwn: who measures its update while it sends it reads each leaf once, and is not taken for dead on a
// disk that takes seconds for a leaf, where a second look at the shard would be longer than the stall time.
func TestANormTakesNoReadOfItsOwn(t *testing.T) {
	l, _, _ := floats(t, 18, 1)
	for _, text := range []string{"geomedian", "geomedian(wire=bfloat16)"} {
		const n, sluggish = 3, 1
		tr := newTraining(t, canonical(t, text), l, n, true, rand.New(rand.NewPCG(3, 4)))
		a := tr.plan(attempt(t, l, 1, 1, 2, 3))
		synctest.Test(t, func(t *testing.T) {
			s := tr.join(newSwarm(t, n, exchange.Config{}))
			disk := slowly(s, sluggish, 3*time.Second)
			tr.verify(a, s.runAll(t.Context(), a, tr.local, tr.merged))
			for i, p := range a.Participants {
				for _, leaf := range shard(p) {
					if k := disk.reads[l.LeafOffset(leaf)]; i != sluggish && k != 1 {
						t.Errorf("%s: leaf %d of participant %d was read %d times, want 1", text, leaf, i, k)
					}
				}
			}
		})
	}
}

// TestANormOfWhatWasSentBefore: a node that was started again measures what an owner has of it still, and says meanwhile that it lives.
func TestANormOfWhatWasSentBefore(t *testing.T) {
	const phase, again = 2, 1 // The victim has all contributions.
	synctest.Test(t, func(t *testing.T) {
		tr, s, a, _, _ := broken(t, phase)
		s.hubs[again].Close()
		s.hubs[again] = newHub(again, exchange.Config{})
		disk := slowly(s, again, 3*time.Second)
		a.Number = 2
		tr.verify(a, s.runAll(t.Context(), a, tr.local, tr.merged))
		for _, leaf := range shard(a.Participants[victim]) {
			if k := disk.reads[a.Layout.LeafOffset(leaf)]; k != 1 {
				t.Errorf("leaf %d was read %d times, want 1", leaf, k)
			}
		}
	})
}
