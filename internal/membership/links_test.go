package membership_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/membership"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/reach"
)

// roads is a p2p.Network that knows the ways to others, by host.
type roads struct {
	p2p.Network
	known map[string]p2p.Reach
}

func (r roads) Reach(to p2p.Addr, _ func(p2p.Peer) error) p2p.Reach { return r.known[to.Host] }

// TestLinks: an SN tells of the SNs that it could not dial lately or has no connection with, and of those that are gone nothing.
func TestLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view := &state.State{Nodes: map[string]*state.Node{}, Bans: map[string]*state.Ban{}}
		add := func(name, role string) *state.Node {
			id, err := identity.PeerID(p2ptest.NewKey(t))
			if err != nil {
				t.Fatal(err)
			}
			view.Nodes[name] = &state.Node{Name: name, Role: role, PeerID: id.String(), Host: name, P2PPort: 30303}
			return view.Nodes[name]
		}
		failed := func(linked bool, ago time.Duration) p2p.Reach {
			at := time.Now().Add(-ago)
			return p2p.Reach{Linked: linked, Failed: reach.Failure{Err: &reach.Error{HostPort: "h:30303", Cause: reach.CauseTimeout}, Since: at.Add(-time.Minute), At: at}}
		}
		restarted := failed(true, time.Hour)
		restarted.Failed.Err.Cause = reach.CauseRefused
		net := roads{known: map[string]p2p.Reach{
			"self": {}, "linked": {Linked: true}, "lately": failed(false, time.Minute), "long-ago": failed(false, time.Hour), "theirs": failed(true, time.Hour), "restarted": restarted,
			"left": failed(false, 0), "banned": failed(false, 0), "sl": failed(false, 0),
		}}
		for name := range net.known {
			add(name, map[bool]string{true: "sl", false: "sn"}[name == "sl"])
		}
		view.Nodes["left"].LeftReason = "stopped"
		view.Bans[view.Nodes["banned"].PeerID] = &state.Ban{}
		m := membership.New(membership.Config{Name: "self", Log: slog.New(slog.DiscardHandler)})
		m.UseHost(net)
		var got []string
		for _, l := range m.Links(view).GetLinks() {
			got = append(got, fmt.Sprintf("%s %v %q %d", l.GetNode(), l.GetLinked(), l.GetCause(), l.GetSinceSeconds()))
		}
		want := `lately false "timeout" 120; long-ago false "" 0; theirs true "timeout" 3660`
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("it tells\n%s, want\n%s", s, want)
		}
	})
}
