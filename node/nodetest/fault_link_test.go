package nodetest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/node/nodetest"
)

// large is a model that takes seconds to exchange over a link of 50 ms.
func large(c nodetest.Config) nodetest.Config {
	c.Elements = 3 << 20 // 192 leaves
	return c
}

// settled is how long a link that is cut for good keeps all from going on: the first attempt, those of the grace, and one that
// began before its end.
const settled = stall + gather + grace + stall + gather + backoff + exchange

// TestLinkFaults: links between live nodes fail, and the network splits.
func TestLinkFaults(t *testing.T) {
	losers := []string{"sn-2", "sl-2", "sl-3"}
	runFaults(t, []fault{
		{
			// Both ends find the stall and tell the third, who has seen nothing. So nobody is named: the same set is tried for the
			// grace, then who can reach each other go on.
			name: "a link between two SLs is cut", cfg: longer(fellows), strike: cut("sl-0", "sl-1"), lasts: 45 * time.Second,
			mend: heal("sl-0", "sl-1"), within: settled, explain: 40 * time.Second, after: pairs,
		},
		{
			name: "a link between two SLs carries one way only", cfg: longer(fellows), lasts: 45 * time.Second,
			strike: func(s *nodetest.Swarm) { s.Network.Deafen("sl-1", "sl-0") }, mend: heal("sl-0", "sl-1"), within: settled, after: pairs,
		},
		{
			name: "a link of four is cut", cfg: longer(four), strike: cut("sl-1", "sl-3"), lasts: 75 * time.Second,
			mend: heal("sl-1", "sl-3"), within: settled, with: three, all: []string{"sl-0", "sl-1", "sl-2", "sl-3"}, after: back("sl-3"),
		},
		{
			// Two have waited in vain, whoever of them speaks first.
			name: "one reaches no other SL", cfg: longer(fellows), lasts: 45 * time.Second, within: 2*(stall+gather) + 2*backoff + exchange,
			strike: func(s *nodetest.Swarm) { s.Network.Cut("sl-0", "sl-2"); s.Network.Cut("sl-1", "sl-2") },
			mend:   func(s *nodetest.Swarm) { s.Network.Heal("sl-0", "sl-2"); s.Network.Heal("sl-1", "sl-2") },
			with:   three[:2], explain: 15 * time.Second, after: back("sl-2"),
		},
		{
			name: "a link between two SLs is cut and all are needed", cfg: needed, strike: cut("sl-0", "sl-1"), lasts: 3 * time.Minute,
			mend: healNamed, blocks: true, within: backoff + stall + exchange, with: three,
			after: rounds(10),
		},
		{
			name: "a link drops for a minute in a large exchange", cfg: large(needed), when: halfway, strike: cut("sl-0", "sl-1"),
			lasts: time.Minute, mend: heal("sl-0", "sl-1"), blocks: true, within: stall + backoff + 5*exchange, with: three,
			after: sentOnce,
		},
		{
			name: "the network splits in two and heals", cfg: longer(four), strike: side(losers...), lasts: 25 * time.Second,
			mend: united(losers...), within: election + heartbeat + elsewhere + exchange, with: three[:2],
			all: []string{"sl-0", "sl-1", "sl-2", "sl-3"}, explain: 4 * time.Second, after: back("sl-3"),
		},
		{
			name: "the network splits and neither side has enough", cfg: needs(four, 3), strike: side(losers...), lasts: time.Minute,
			mend: united(losers...), blocks: true, within: election + backoff + 2*beat + exchange,
			all: []string{"sl-0", "sl-1", "sl-2", "sl-3"}, explain: 45 * time.Second,
		},
	})
}

// healNamed heals the link whose ends the reason must name. Which of the two is heard first differs, so there is no golden
// text.
func healNamed(s *nodetest.Swarm) {
	if why := s.Waiting(); !strings.Contains(why, "sl-0") || !strings.Contains(why, "sl-1") {
		s.Fail("waiting: %q; want both ends of the link named", why)
	}
	s.Network.Heal("sl-0", "sl-1")
}

func needs(c nodetest.Config, least int) nodetest.Config {
	c.MinPeers = least
	return c
}

// pairs holds that round 4 was merged without one end of the cut link, and the last one by all.
func pairs(t *testing.T, s *nodetest.Swarm) {
	t.Helper()
	log := s.Log.Settled()
	if with := names(log[3]); len(with) != 2 || slices.Equal(with, three[:2]) {
		t.Errorf("round 4 was merged by %v over a cut link", with)
	}
	if n := len(log[len(log)-1].Participants); n != 3 {
		t.Errorf("%d participants in the final round, want 3", n)
	}
}

// halfway is when some leaves of round 4 have come and most have not.
func halfway(s *nodetest.Swarm) bool {
	leaves, _ := s.Traffic.Carried(4)
	return len(leaves) >= 240 // of 768: to each of 192 two contribute, and two take it
}

// sentOnce holds that round 4 cost what one exchange costs: each merged leaf came once. What was contributed came once too,
// but for the few leaves that an owner had in hand when an attempt failed, waiting for the link's other end.
func sentOnce(t *testing.T, s *nodetest.Swarm) {
	t.Helper()
	const leaf, inHand = 64 << 10, 4 + 3*4 // leaves: an owner's ring of one contributor, and what was under way
	r := s.Log.Settled()[3]
	leaves, bytes := s.Traffic.Carried(4)
	owns := func(node string, leaf uint32) bool {
		return slices.ContainsFunc(r.Participants, func(p state.Participant) bool {
			return p.Node == node && uint64(leaf) >= p.ShardFirst && uint64(leaf) < p.ShardFirst+p.ShardLeaves
		})
	}
	again := map[[2]string]int{}
	for c, n := range leaves {
		switch {
		case n > 1 && owns(c.From, c.Leaf):
			t.Errorf("merged leaf %d came from %s to %s %d times", c.Leaf, c.From, c.To, n)
		case n > 1:
			again[[2]string{c.From, c.To}]++
		}
	}
	for link, n := range again {
		if n > inHand {
			t.Errorf("%d leaves came again from %s to %s, at most %d were in hand", n, link[0], link[1], inHand)
		}
	}
	model := uint64(s.Run("sl-0").Program.Elements) * 4
	once := 2 * model * 2 // 2·M·(N−1)/N for each of three
	most := once + (r.Attempt-1)*6*inHand*leaf
	t.Logf("%d attempts, %d leaves, %d bytes, one exchange takes %d", r.Attempt, len(leaves), bytes, once)
	if len(leaves) != 4*192 || bytes < once || bytes > most {
		t.Errorf("round 4 took %d leaves and %d bytes on the wire, want 768, and %d to %d", len(leaves), bytes, once, most)
	}
}
