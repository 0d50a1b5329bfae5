package nodetest_test

import (
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

var sns = []string{"sn-0", "sn-1", "sn-2"}

// leader applies a fault to whoever leads when it strikes, and its end to the same node.
func leader(do, undo func(s *nodetest.Swarm, name string)) (strike, mend func(s *nodetest.Swarm)) {
	var old string
	return func(s *nodetest.Swarm) {
			old = s.Leader()
			do(s, old)
		}, func(s *nodetest.Swarm) {
			undo(s, old)
		}
}

// unplanned reports whether all are ready for round 4 but for the slowest.
func unplanned(s *nodetest.Swarm) bool {
	return s.Round() == 3 && s.SLs.Reported("sl-0").GetReady().GetSeq() == 4 && !s.Planned(4)
}

// uneven has the programs take one, two and three seconds for a step.
func uneven(c nodetest.Config) nodetest.Config {
	c.Program = func(i int, p *nodetest.Program) { p.Think = time.Duration(i+1) * think }
	return c
}

// network is a fault of the network, as one of a swarm.
func network(do func(n *nodetest.Network, name string)) func(s *nodetest.Swarm, name string) {
	return func(s *nodetest.Swarm, name string) { do(s.Network, name) }
}

// TestSNFaults: the raft leader, the Sentinel or all SNs fail.
func TestSNFaults(t *testing.T) {
	crashed, restarted := leader(func(s *nodetest.Swarm, l string) { s.Crash(l) }, (*nodetest.Swarm).Restart)
	frozen, thawed := leader(network((*nodetest.Network).Stop), network((*nodetest.Network).Continue))
	alone, joined := leader(network((*nodetest.Network).Isolate), network((*nodetest.Network).Join))
	// A heartbeat can find a silent SN, and the next one an SN that waits for the election: twice elsewhere.
	expired, renewed := leader(network((*nodetest.Network).Expire), network((*nodetest.Network).Renew))
	runFaults(t, []fault{
		{
			name: "leader dies before the plan", cfg: uneven(needed), when: unplanned, strike: crashed,
			within: election + 3*think + exchange, with: three, after: rounds(10),
		},
		{
			name: "leader dies after the plan", cfg: needed, strike: crashed, within: election + exchange, with: three,
			after: rounds(10),
		},
		{
			name: "leader dies after the commit", cfg: needed, when: func(s *nodetest.Swarm) bool { return s.Round() == 4 }, strike: crashed,
			within: max(election, think) + exchange, with: three, after: rounds(10),
		},
		{
			name: "leader dies and returns", cfg: longer(needed), strike: crashed, lasts: 20 * time.Second, mend: restarted,
			within: election + exchange, with: three, after: rounds(32),
		},
		{
			name: "leader is cut off", cfg: longer(needed), strike: alone, lasts: 20 * time.Second, mend: joined,
			within: election + 2*elsewhere + exchange, with: three, after: rounds(32),
		},
		{
			name: "leader freezes and its proposals arrive late", cfg: longer(needed), when: reported("sl-2"), before: late,
			strike: frozen, lasts: 20 * time.Second, mend: thawed, within: election + 2*elsewhere + exchange, with: three,
			after: rounds(32),
		},
		{
			name: "leader freezes until its streams break", cfg: needed, strike: frozen, lasts: 45 * time.Second, mend: thawed,
			within: election + 2*elsewhere + exchange, with: three, after: rounds(10),
		},
		{
			name: "leader's identity expires", cfg: longer(needed), strike: expired, lasts: 20 * time.Second, mend: renewed,
			within: election + exchange, with: three, after: rounds(32),
		},
		{
			name: "Sentinel dies for good", cfg: steps(needed, 120), strike: crash("sn-0"), within: election + exchange, with: three,
			lasts: 10 * time.Second, mend: replaced, after: rounds(122),
		},
		{
			name: "all SNs restart", cfg: needed, strike: crash(sns...), lasts: 20 * time.Second, mend: restart(sns...),
			blocks: true, within: election + 3*beat + exchange, with: three, after: rounds(10),
		},
		{
			name: "SNs lose each other", cfg: needed, strike: scatter((*nodetest.Network).Cut), lasts: time.Minute,
			mend: scatter((*nodetest.Network).Heal), blocks: true, within: election + beat + exchange, with: three, after: rounds(10),
		},
		{
			name: "one SL's SN goes silent", cfg: longer(needed), strike: cut("sl-1", "sn-1"), lasts: 20 * time.Second,
			mend: heal("sl-1", "sn-1"), within: elsewhere + exchange, with: three, after: neverDead("sl-1"),
		},
		{
			name: "old proposals come again", cfg: longer(needed), strike: func(s *nodetest.Swarm) {
				if changed := s.Log.ProposeAgain(); len(changed) > 0 {
					s.Fail("old commands changed the state: %v", changed)
				}
			},
			within: exchange, with: three, after: rounds(32),
		},
	})
}

// rounds holds that there are so many, each once: the log is checked for the rest at the end.
func rounds(want int) func(t *testing.T, s *nodetest.Swarm) {
	return func(t *testing.T, s *nodetest.Swarm) {
		if got := len(s.Log.Settled()); got != want {
			t.Errorf("%d rounds, want %d", got, want)
		}
	}
}

// scatter applies a fault to all links between SNs.
func scatter(do func(n *nodetest.Network, a, b string)) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) {
		do(s.Network, "sn-0", "sn-1")
		do(s.Network, "sn-1", "sn-2")
		do(s.Network, "sn-0", "sn-2")
	}
}

// replaced lets a new SN join through one that is no Sentinel, and when it stands in for the dead one, another dies: the
// swarm goes on only if the new one votes.
func replaced(s *nodetest.Swarm) {
	name := s.SNs.Join("sn-2", nil)
	s.Until("the new SN in the dead one's place", func() bool { return s.SNs.Member(name) && !s.SNs.Member("sn-0") })
	s.Crash("sn-1")
	at := s.Round()
	s.Until("rounds with it", func() bool { return s.Round() > at+3 })
}

// neverDead holds that nobody took a node for dead.
func neverDead(name string) func(t *testing.T, s *nodetest.Swarm) {
	return func(t *testing.T, s *nodetest.Swarm) {
		if n := s.Log.Deaths(name); n > 0 {
			t.Errorf("%s was declared dead %d times, though it only had to find another SN", name, n)
		}
	}
}
