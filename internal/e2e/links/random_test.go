package links_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Thirty rounds and more with a fault every three: nodes are killed and come back, stand still and wake, links are cut and
// heal. SWARM_TEST_SEED repeats a run as far as processes can be repeated.
func TestRandomFaults(t *testing.T) {
	seed := uint64(time.Now().UnixNano()) % 100_000
	if s := os.Getenv("SWARM_TEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("SWARM_TEST_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	w := newSwarm(t, 3)
	// The first goes on through all faults, so that the end does not come before the last of them.
	extra := []string{"MIN_PEERS=2", "BATCH_SECONDS=0.1", "--stall-grace=3s"}
	for i := 1; i <= 4; i++ {
		w.train(i, append(extra, "BATCHES=1000000", "--expected-peers=4")...)
	}
	w.reaches(w.sls[1], 2)
	for last(w.sls[1]) < 32 {
		from := last(w.sls[1])
		mend := w.fault(rng, extra)
		w.reaches(w.sls[1], from+2)
		mend()
		w.reaches(w.sls[1], from+3)
	}
	// Now each is to end: programs that train for ever are replaced by ones that do not.
	for i := 1; i <= 4; i++ {
		w.sls[i].Kill()
		w.train(i, append(extra, "BATCHES=12")...)
	}
	w.ends()
}

// fault does something bad and returns what ends it. Two SLs and a majority of the SNs are always well and connected.
func (w *swarm) fault(rng *rand.Rand, extra []string) (mend func()) {
	w.T.Helper()
	sl, sn := 2+rng.IntN(3), slices.Sorted(maps.Keys(w.sns))[rng.IntN(len(w.sns))]
	kind := rng.IntN(5)
	w.T.Logf("round %d: fault %d with sl-%d, sn-%d", last(w.sls[1]), kind, sl, sn)
	switch kind {
	case 0:
		w.sls[sl].Kill()
		return func() { w.train(sl, append(extra, "BATCHES=1000000")...) }
	case 1:
		w.sls[sl].Signal(syscall.SIGSTOP)
		return func() { w.sls[sl].Signal(syscall.SIGCONT) }
	case 2:
		other := 2 + (sl-1)%3
		w.cut(10+sl, 10+other)
		return func() { w.heal(10+sl, 10+other) }
	case 3:
		w.sns[sn].Kill()
		return func() {
			w.sns[sn] = w.SN(sn)
			w.sns[sn].Sees(apiMarker)
		}
	default:
		for i := 1; i <= 3; i++ {
			w.cut(10+sl, i)
		}
		return func() {
			for i := 1; i <= 3; i++ {
				w.heal(10+sl, i)
			}
		}
	}
}
