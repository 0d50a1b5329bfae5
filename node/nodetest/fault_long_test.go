package nodetest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// TestManyRounds merges with a random fault every few rounds. SWARM_TEST_SEED repeats a seed, which the test's name tells.
func TestManyRounds(t *testing.T) { manyRounds(t, 60) }

// TestManyRoundsForMinutes is the same for 500 rounds.
func TestManyRoundsForMinutes(t *testing.T) {
	long(t)
	manyRounds(t, 500)
}

func manyRounds(t *testing.T, steps int) {
	t.Helper()
	first, last := chosen(t, 1)
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			cfg := nodetest.Config{SNs: 3, SLs: 4, MinPeers: 2, Steps: steps, Elements: 1000, Containers: true}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) { trouble(t, s, rand.New(rand.NewPCG(seed, 3)), steps) })
		})
	}
}

// trouble makes one random fault after the other, each for some rounds or seconds, until the programs end. Within a minute
// and a half of each fault's end there must be another round.
func trouble(t *testing.T, s *nodetest.Swarm, rng *rand.Rand, steps int) {
	t.Helper()
	nodes := []string{"sn-0", "sn-1", "sn-2", "sl-0", "sl-1", "sl-2", "sl-3"}
	pick := func() string { return nodes[rng.IntN(len(nodes))] }
	kinds := []func() (do, undo func()){
		func() (func(), func()) { a := pick(); return func() { s.Crash(a) }, func() { s.Restart(a) } },
		func() (func(), func()) {
			a := pick()
			return func() { s.Network.Stop(a) }, func() { s.Network.Continue(a) }
		},
		func() (func(), func()) {
			a, b := pick(), pick()
			return func() { s.Network.Cut(a, b) }, func() { s.Network.Heal(a, b) }
		},
		func() (func(), func()) {
			a := pick()
			return func() { s.Network.Isolate(a) }, func() { s.Network.Join(a) }
		},
		func() (func(), func()) {
			a := pick()
			return func() { s.Network.Expire(a) }, func() { s.Network.Renew(a) }
		},
		func() (func(), func()) {
			a, b := pick(), pick()
			return func() { s.Network.Slow(a, b, 200*time.Millisecond) }, func() { s.Network.Slow(a, b, 0) }
		},
		func() (func(), func()) {
			return func() { s.Network.Split("sn-2", "sl-2", "sl-3") }, func() { s.Network.Unite("sn-2", "sl-2", "sl-3") }
		},
	}
	faults := 0
	for int(s.Round())+8 < steps { //nolint:gosec // small
		at := s.Round()
		s.Until("a few rounds", func() bool { return s.Round() > at+uint64(rng.IntN(4)) }) //nolint:gosec // small
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		kind := rng.IntN(len(kinds))
		do, undo := kinds[kind]()
		do()
		time.Sleep(time.Duration(rng.IntN(15000)) * time.Millisecond)
		undo()
		faults++
		healed, round := time.Now(), s.Round()
		s.Until("a round after the fault", func() bool { return s.Round() > round })
		if took := time.Since(healed); took > 90*time.Second {
			t.Errorf("fault %d of kind %d: the next round came %s after its end", faults, kind, took)
		}
	}
	s.Wait()
	t.Logf("%d faults, %d rounds", faults, s.Round())
	for _, name := range []string{"sl-0", "sl-1", "sl-2", "sl-3"} {
		if err := s.Run(name).Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// long skips a test that takes minutes, unless it is asked for.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("it takes minutes: set SWARM_TEST_LONG=1, or run make test-long")
	}
}
