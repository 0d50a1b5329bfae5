package nodetest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/node/nodetest"
)

// crash ends nodes, which cannot leave first.
func crash(names ...string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.Crash(names...) }
}

func restart(names ...string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) {
		for _, name := range names {
			s.Restart(name)
		}
	}
}

func stop(name string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.Network.Stop(name) }
}

func goOn(name string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.Network.Continue(name) }
}

func hang(name string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.SLs.Hang(name, true) }
}

func answer(name string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.SLs.Hang(name, false) }
}

func cut(a, b string) func(s *nodetest.Swarm) { return func(s *nodetest.Swarm) { s.Network.Cut(a, b) } }

func heal(a, b string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.Network.Heal(a, b) }
}

func side(all ...string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.Network.Split(all...) }
}

func united(all ...string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.Network.Unite(all...) }
}

// late makes the word of sl-0 take a while, so that the others' is in before.
func late(s *nodetest.Swarm) {
	enrolled(s, 3)
	slowly(s, 50*time.Millisecond)
	for _, sn := range []string{"sn-0", "sn-1", "sn-2"} {
		s.Network.Slow("sl-0", sn, 200*time.Millisecond)
	}
}

// back holds that a node took part in the rounds again after it had missed some.
func back(name string) func(t *testing.T, s *nodetest.Swarm) {
	return func(t *testing.T, s *nodetest.Swarm) {
		missed := uint64(0)
		for _, r := range s.Log.Settled() {
			switch in := slices.Contains(names(r), name); {
			case !in:
				missed = r.Round
			case missed > 0 && r.Round > missed:
				return
			}
		}
		t.Errorf("%s missed round %d and did not come back", name, missed)
	}
}

// TestSLFaults: an SL dies, stalls, or comes late.
func TestSLFaults(t *testing.T) {
	two, others := three[:2], []string{"sl-0", "sl-1"}
	runFaults(t, []fault{
		{
			name: "dies while it trains", cfg: fellows, when: training(4, "sl-2"), strike: crash("sl-2"), all: two,
			within: think + heartbeat + exchange, with: others, explain: 2 * time.Second,
		},
		{
			name: "dies before the fifth round", cfg: fellows, when: training(5, "sl-2"), strike: crash("sl-2"), all: two,
			within: max(think, heartbeat) + exchange, with: others, explain: 3 * time.Second, // not the quorum wait
		},
		{
			name: "dies while it sends", cfg: fellows, strike: crash("sl-2"), all: two,
			within: heartbeat + exchange, with: others,
		},
		{
			name: "dies while it receives", cfg: fellows, before: receives, strike: crash("sl-2"), all: two,
			within: heartbeat + 3*exchange, with: others,
		},
		{
			name: "dies after it reported", cfg: fellows, before: late, when: reported("sl-2"), strike: crash("sl-2"), all: two,
			within: heartbeat + exchange,
		},
		{
			name: "dies and returns at once", cfg: fellows, strike: crash("sl-2"), lasts: time.Second, mend: restart("sl-2"),
			within: heartbeat + exchange, after: back("sl-2"),
		},
		{
			name: "dies after its report and returns", cfg: fellows, before: late, when: reported("sl-2"), strike: crash("sl-2"),
			lasts: time.Second, mend: restart("sl-2"), within: heartbeat + exchange,
		},
		{
			name: "stalls and wakes later", cfg: longer(fellows), strike: stop("sl-2"), lasts: 20 * time.Second, mend: goOn("sl-2"),
			within: heartbeat + exchange, with: others, explain: 3 * time.Second, after: back("sl-2"),
		},
		{
			name: "stalls shortly", cfg: needed, strike: stop("sl-2"), lasts: 3 * time.Second, mend: goOn("sl-2"), blocks: true,
			within: exchange + beat, with: three,
		},
		{
			// 3 × stall until it says so; then it has no plan for the attempts of the grace.
			name: "an owner's disk hangs", cfg: longer(fellows), strike: hang("sl-1"), lasts: 3 * time.Minute, mend: answer("sl-1"),
			within: 3*stall + stall/4 + grace + stall + backoff + exchange, with: []string{"sl-0", "sl-2"}, explain: 35 * time.Second, after: back("sl-1"),
		},
		{
			// The others have merged, and it does not say that it has: that is its grace.
			name: "a receiver's disk hangs", cfg: longer(fellows), strike: hang("sl-2"), lasts: 3 * time.Minute, mend: answer("sl-2"),
			within: grace + 2*(stall+backoff) + exchange, with: others, explain: 30 * time.Second, after: back("sl-2"),
		},
		{
			name: "two die at once", cfg: four, strike: crash("sl-2", "sl-3"), all: two,
			within: heartbeat + exchange, with: others,
		},
		{
			name: "two stall at once", cfg: longer(four), strike: func(s *nodetest.Swarm) { s.Network.Stop("sl-1"); s.Network.Stop("sl-3") },
			lasts: 20 * time.Second, mend: func(s *nodetest.Swarm) { s.Network.Continue("sl-1"); s.Network.Continue("sl-3") },
			within: heartbeat + exchange, with: []string{"sl-0", "sl-2"}, all: []string{"sl-0", "sl-1", "sl-2", "sl-3"},
		},
		{
			name: "too few are left until one returns", cfg: needed, strike: stop("sl-2"), lasts: 2 * time.Minute, mend: goOn("sl-2"),
			blocks: true, within: beat + backoff + exchange, with: three, explain: time.Minute, after: told("lost: sl-2"),
		},
		{
			name: "too few are left until one starts again", cfg: needed, strike: crash("sl-1"), lasts: time.Minute, mend: restart("sl-1"),
			blocks: true, within: beat + think + exchange, with: three, explain: 30 * time.Second,
		},
		{
			name: "a required node is missing", cfg: allLate(longer(fellows)), before: requiring("sl-2"), when: training(4, three...),
			strike: stop("sl-2"), lasts: time.Minute, mend: goOn("sl-2"), blocks: true, within: beat + think + exchange, with: three,
			explain: 30 * time.Second,
		},
		{
			name: "one is ten times slower", cfg: slower(fellows), when: training(4, "sl-2"), strike: func(*nodetest.Swarm) {},
			within: 2*think + 2*(think+exchange) + exchange, with: others, explain: think + 500*time.Millisecond,
			after: heardEveryFifth("sl-2"),
		},
		{
			name: "joins late", cfg: joining(fellows), when: training(4, "sl-0"), strike: restart("sl-2"),
			within: think + 2*(think+exchange) + exchange, after: startsFrom(3, "sl-2"),
		},
		{
			name: "its identity expires", cfg: longer(fellows), when: training(4, "sl-1"), strike: func(s *nodetest.Swarm) { s.Network.Expire("sl-1") },
			lasts: 20 * time.Second, mend: func(s *nodetest.Swarm) { s.Network.Renew("sl-1") },
			within: think + heartbeat + exchange, with: []string{"sl-0", "sl-2"}, explain: 3 * time.Second, after: back("sl-1"),
		},
	})
}

func allLate(c nodetest.Config) nodetest.Config {
	c.Late = three
	return c
}

// requiring creates the contract with a rule before the SLs start.
func requiring(node string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) {
		rules := &swarmv1.Rules{Required: []string{node}}
		if _, err := s.Operator().CreateContract(context.Background(), nodetest.Contract, rules); err != nil {
			s.Fail("create contract: %v", err)
		}
		slowly(s, 50*time.Millisecond)
		restart(three...)(s)
	}
}

// receives lets sl-2 take merged leaves long after it has sent its own.
func receives(s *nodetest.Swarm) {
	slowly(s, 10*time.Millisecond)
	s.Network.Slow("sl-0", "sl-1", 300*time.Millisecond)
}

// slower has the program of sl-2 need ten times as long for a step.
func slower(c nodetest.Config) nodetest.Config {
	c.Steps = 20
	c.Program = func(i int, p *nodetest.Program) {
		if i == 2 {
			p.Think *= 10
		}
	}
	return c
}

func joining(c nodetest.Config) nodetest.Config {
	c.Late = []string{"sl-2"}
	return c
}

// told holds that the waiting program of sl-0 was shown why.
func told(want string) func(t *testing.T, s *nodetest.Swarm) {
	return func(t *testing.T, s *nodetest.Swarm) {
		if waits := strings.Join(s.Run("sl-0").Waits(), "\n"); !strings.Contains(waits, want) {
			t.Errorf("the waiting program was shown %q, want %q in it", waits, want)
		}
	}
}

// heardEveryFifth holds that rounds wait for a slow peer in each fifth round only.
func heardEveryFifth(name string) func(t *testing.T, s *nodetest.Swarm) {
	return func(t *testing.T, s *nodetest.Swarm) {
		for _, r := range s.Log.Settled() {
			if in := slices.Contains(names(r), name); r.Round%5 == 0 && !in {
				t.Errorf("round %d was merged without the slow %s", r.Round, name)
			}
		}
	}
}

// startsFrom holds that a program was given a committed model of this round or a later one first, and took part later.
func startsFrom(round uint64, name string) func(t *testing.T, s *nodetest.Swarm) {
	return func(t *testing.T, s *nodetest.Swarm) {
		handed := s.Run(name).Handed()
		if len(handed) < 2 || handed[0].Contributed || handed[0].Round < round || !handed[1].Contributed {
			t.Errorf("%s was given %+v; want a committed model first, then one that it took part in", name, handed)
		}
	}
}
