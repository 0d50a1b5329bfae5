package nodetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// leafElements are at most one leaf of float32, so that as many leaves as these there are at least.
const leafElements = 65_536

// TestALiarSeesItsShardOnly: in each attempt of a round a peer contradicts what an owner sent, so that the attempt is repeated,
// and at last tells the truth. Of nobody's contribution it sees more than what it owns.
func TestALiarSeesItsShardOnly(t *testing.T) {
	for _, n := range []int{3, 4, 5, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			cfg := nodetest.Config{SNs: 1, SLs: n, MinPeers: 2, Steps: 3, Think: think, Elements: leafElements * n}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
				liar := fmt.Sprintf("sl-%d", n-1)
				s.Until("the first round", func() bool { return s.Round() == 1 })
				s.Liars.LieAbout(liar, "sl-0")
				s.Until("as many attempts as there are shards, or a round", func() bool {
					c := s.View(nodetest.Contract)
					return s.Round() > 1 || c.Plan != nil && c.Plan.Attempt >= uint64(n)
				})
				s.Liars.Honest(liar)
				s.Wait()
				leaves := int(s.View(nodetest.Contract).Terms.Leaves) //nolint:gosec // small
				if most, owners := s.Traffic.Seen(liar); most > (leaves+n-1)/n || owners > 2 {
					t.Errorf("it got %d of %d leaves of one contribution, and some leaf went to %d owners", most, leaves, owners)
				}
			})
		})
	}
}

// TestOwnersDieOneAfterTheOther: each leaf of a round goes to two owners at most. When a third would be needed the round is
// skipped: the programs go on with their own weights, and what they offer next is merged.
func TestOwnersDieOneAfterTheOther(t *testing.T) {
	cfg := nodetest.Config{SNs: 3, SLs: 6, MinPeers: 2, Steps: 12, Think: think, Calm: calm, Elements: 12 * leafElements}
	history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
		for a := range 6 {
			for b := range a {
				s.Network.Slow(fmt.Sprintf("sl-%d", a), fmt.Sprintf("sl-%d", b), 50*time.Millisecond)
			}
		}
		dies := func(name string, others int) {
			t.Helper()
			s.Until("an attempt with "+name, func() bool {
				c := s.View(nodetest.Contract)
				return s.Planned(4) && len(c.Plan.Participants) == others+1
			})
			time.Sleep(150 * time.Millisecond) // Leaves are with the owners, merged ones on their way.
			s.Crash(name)
		}
		dies("sl-0", 5)
		dies("sl-1", 4)
		rest := []string{"sl-2", "sl-3", "sl-4", "sl-5"}
		agree(t, s, rest...)
		skips := s.View(nodetest.Contract).Skips
		if skips == nil || skips.Count != 1 || skips.Round != 4 {
			t.Fatalf("skipped %+v, want round 4 once", skips)
		}
		for _, name := range rest {
			skipped, round := 0, uint64(0)
			for _, m := range s.Run(name).Handed() {
				if round = m.Round; m.Skipped {
					skipped++
				}
			}
			if skipped != 1 || round < 11 {
				t.Errorf("%s was told of %d skipped rounds and ended with round %d", name, skipped, round)
			}
		}
	})
}
