package trust_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/internal/round"
)

// TestOneViewIsJudgedAnew: what was found of a view is kept, and no longer than it is true: until more is known or the clock says
// something else.
func TestOneViewIsJudgedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := w.guard()
		b := session("b", "spiffe://a.example/swarm/sl/b", peerID(t), "d")
		view := []*round.Session{session("me", "spiffe://a.example/swarm/sl/me", peerID(t), "d"), b}
		w.signs(w.issue("/swarm/sl/me"), swarmID, "me", view[0].PeerID)
		expect := func(when string, unknown, refused []string) {
			t.Helper()
			for range 2 {
				var names []string
				for _, m := range g.Unknown(view) {
					names = append(names, m.Node)
				}
				if got := g.Refused(view, "me"); !slices.Equal(names, unknown) || !slices.Equal(got, refused) {
					t.Errorf("%s: %v can't be judged, %v are refused; want %v and %v", when, names, got, unknown, refused)
				}
			}
		}
		expect("nothing is known", []string{"me", "b"}, nil)
		g.Learn(t.Context(), view)
		expect("the SN does not show what b has signed", nil, []string{"b"})
		time.Sleep(5*time.Second + 1)
		expect("another SN may", []string{"b"}, nil)
		w.signs(w.issue("/swarm/sl/b"), swarmID, "b", b.PeerID)
		g.Learn(t.Context(), view)
		expect("it is shown", nil, nil)
		td := spiffeid.RequireTrustDomainFromString("a.example")
		bundle, _ := w.source.Get(td)
		w.source.Remove(td)
		time.Sleep(30 * time.Second)
		expect("not a moment after it was checked", nil, nil)
		time.Sleep(time.Nanosecond)
		expect("the bundle has gone", nil, []string{"b"})
		w.source.Add(bundle)
		time.Sleep(30*time.Second + 1)
		expect("it is back", nil, nil)
		if got := g.Refused(view, "b"); len(got) > 0 {
			t.Errorf("b refuses %v", got)
		}
		time.Sleep(12 * time.Hour)
		expect("the SVIDs have ended", nil, []string{"b"})
		if got := g.Refused(view, "b"); !slices.Equal(got, []string{"me"}) {
			t.Errorf("b refuses %v", got)
		}
	})
}
