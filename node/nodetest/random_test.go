package nodetest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// TestRandomFaults lets faults happen to random nodes and links at random times, mends them and expects the swarm to come
// to its end. SWARM_TEST_SEED repeats one seed, which the name of the failed test tells, or runs
// several: 1-500.
func TestRandomFaults(t *testing.T) {
	first, last := chosen(t, seeds)
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			cfg := nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Steps: 15, Elements: 30_000}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) { faults(t, s, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

// chosen are the first and the last seed.
func chosen(t *testing.T, most uint64) (first, last uint64) {
	t.Helper()
	first, last = 1, most
	if text := os.Getenv("SWARM_TEST_SEED"); text != "" {
		from, to, _ := strings.Cut(text, "-")
		if to == "" {
			to = from
		}
		var err1, err2 error
		first, err1 = strconv.ParseUint(from, 10, 64)
		last, err2 = strconv.ParseUint(to, 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
	}
	return first, last
}

// faults makes eight faults of which at most two last at the same time, then mends all.
func faults(t *testing.T, s *nodetest.Swarm, rng *rand.Rand) {
	t.Helper()
	nodes := []string{"sn-0", "sn-1", "sn-2", "sl-0", "sl-1", "sl-2"}
	slowly(s, time.Duration(rng.IntN(40))*time.Millisecond)
	var mends []func()
	busy := map[string]bool{}
	for range 8 {
		time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
		a, b := nodes[rng.IntN(len(nodes))], nodes[rng.IntN(len(nodes))]
		if busy[a] || busy[b] || a == b {
			continue
		}
		busy[a], busy[b] = true, true
		free := func() { busy[a], busy[b] = false, false }
		kind := rng.IntN(5)
		t.Logf("%s: fault %d at %s and %s, round %d", time.Now().Format("05.000"), kind, a, b, s.Round())
		switch kind {
		case 0:
			s.Crash(a)
			mends = append(mends, func() { s.Restart(a); free() })
		case 1:
			s.Network.Stop(a)
			mends = append(mends, func() { s.Network.Continue(a); free() })
		case 2:
			s.Network.Cut(a, b)
			mends = append(mends, func() { s.Network.Heal(a, b); free() })
		case 3:
			s.Network.Isolate(a)
			mends = append(mends, func() { s.Network.Join(a); free() })
		case 4:
			s.Network.Expire(a)
			mends = append(mends, func() { s.Network.Renew(a); free() })
		}
		for len(mends) > rng.IntN(3) {
			time.Sleep(time.Duration(rng.IntN(20000)) * time.Millisecond)
			mends[0]()
			mends = mends[1:]
		}
	}
	for _, mend := range mends {
		mend()
	}
	s.Wait()
	ended := 0
	for _, name := range three {
		if slices.ContainsFunc(s.SLs.Runs(name), func(r *nodetest.Run) bool { return r.Err() == nil }) {
			ended++
		}
		t.Logf("%s: %v", name, s.Run(name).Err())
	}
	if ended < 2 {
		t.Errorf("%d programs have the final model, want at least minPeers", ended)
	}
}
