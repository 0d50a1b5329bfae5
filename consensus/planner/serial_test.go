package planner_test

import (
	"testing"
	"time"
)

// TestWhoAccusesOneAfterTheOther: a liar that stands first in the plan ends each attempt and lays it to the next in the plan.
// It costs the swarm the grace and one honest peer's rounds, and then the round goes on.
func TestWhoAccusesOneAfterTheOther(t *testing.T) {
	for _, n := range []int{3, 4, 5, 7} {
		b := newTable(t, 2, n)
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		b.ready(1, all...)
		b.follow()
		attempt, begun := uint64(0), b.now
		var planned []string
		for ; b.contract().Committed == nil; b.now = b.now.Add(100 * time.Millisecond) {
			b.follow()
			p := b.contract().Plan
			if b.now.Sub(begun) > 3*time.Minute {
				t.Fatalf("%d peers: nothing is committed; the last attempt is that of %v", n, planned)
			}
			if p == nil || p.Attempt == attempt {
				continue
			}
			attempt, planned = p.Attempt, nil
			for _, q := range p.Participants {
				planned = append(planned, q.Node)
			}
			b.now = b.now.Add(time.Second)
			liar := p.Participant(id(0)) != nil
			for _, node := range planned {
				switch i := number(node); {
				case !liar:
					b.tells(i, word{done: true})
				case i == 0:
					b.tells(i, saw(planned[1]))
				default:
					b.tells(i, heard(planned[1], "sl-0"))
				}
			}
		}
		if len(planned) < max(2, n-2) {
			t.Errorf("%d peers: %v were left of them", n, planned)
		}
	}
}
