package session_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/round"
)

// TestAModelIsAskedOfThoseFirstToWhomThereIsAWay: a participant of the round that this node can't dial is asked after others, one that has made a
// connection itself is not.
func TestAModelIsAskedOfThoseFirstToWhomThereIsAWay(t *testing.T) {
	for name, x := range map[string]struct {
		unreached []round.Unreached
		want      []string
	}{
		"all are":           {nil, []string{"other", "third"}},
		"one is not":        {[]round.Unreached{{Node: "other", Cause: "timeout"}}, []string{"third", "other"}},
		"one that dials us": {[]round.Unreached{{Node: "other", Cause: "timeout", Linked: true}}, []string{"other", "third"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSwarm()
				w.unreached, w.refuses = x.unreached, true
				e, id, _ := start(t, w)
				w.update(func(v *round.View) {
					v.Sessions = append(v.Sessions, &round.Session{ID: "third", Node: "third", Live: true, State: "open"})
					commit(v, 5, 0, digestOf([]byte("ABCDEFGH"))) // which nobody gives
				})
				syncCall(t, e, id, 1)
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.asked) < 2 {
					t.Fatalf("asked %v", w.asked)
				}
				if diff := cmp.Diff(x.want, w.asked[:2]); diff != "" {
					t.Errorf("asked in another order (-want +got):\n%s", diff)
				}
			})
		})
	}
}
