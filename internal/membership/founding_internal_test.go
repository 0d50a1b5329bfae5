package membership

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/epoch"
)

// TestOnlyAnUnusedSwarmIsGivenUp: a handshake stops a founder that is alone and new, and never an SN that others rely on.
func TestOnlyAnUnusedSwarmIsGivenUp(t *testing.T) {
	founded := time.UnixMilli(1_000_000)
	node := func(name, role string) state.Command {
		return state.RegisterNode{
			Node: state.Node{Name: name, Role: role, PeerID: "id" + name, Host: name}, TokenHash: strings.Repeat("0", 64), AtMS: 2,
		}
	}
	own := []state.Command{state.InitSwarm{SwarmID: "swarm", AtMS: founded.UnixMilli()}, node("sn-0", "sn")}
	tests := map[string]struct {
		more    []state.Command
		servers int
		age     time.Duration
		want    bool
	}{
		"new and alone":      {nil, 1, time.Minute, true},
		"with another SN":    {[]state.Command{node("sn-1", "sn")}, 2, time.Minute, false},
		"with a lost server": {nil, 2, time.Minute, false},
		"with an SL":         {[]state.Command{node("sl-0", "sl")}, 1, time.Minute, false},
		"with a contract":    {[]state.Command{state.CreateContract{Contract: "c", AtMS: 3}}, 1, time.Minute, false},
		"with a ban":         {[]state.Command{state.BanNode{PeerID: "idx", AtMS: 3}}, 1, time.Minute, false},
		"old":                {nil, 1, 25 * time.Hour, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			view := state.New()
			for _, c := range append(own[:2:2], tt.more...) {
				next, _, err := view.Apply(c)
				if err != nil {
					t.Fatal(err)
				}
				view = next
			}
			if got := alone(view, "sn-0", tt.servers, founded.Add(tt.age)); got != tt.want {
				t.Errorf("given up: %t", got)
			}
		})
	}
}

// TestFounderListensFirst: for as long as it is told, or not at all.
func TestFounderListensFirst(t *testing.T) {
	for _, wait := range []time.Duration{0, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &Member{cfg: Config{Options: Options{FoundAfter: wait}}, seekers: make(chan seeker, 1)}
			begin := time.Now()
			if err := s.listen(t.Context()); err != nil || time.Since(begin) != wait {
				t.Errorf("%v after %s, want %s", err, time.Since(begin), wait)
			}
		})
	}
}

// lone is the group of an SN that is alone in it.
type lone struct{ view *state.State }

func (l lone) View() *state.State          { return l.view }
func (l lone) Servers() []consensus.Server { return make([]consensus.Server, 1) }

// TestFounderGivesWayToSLsOfAnotherSwarm: the servers of a swarm that has removed a lost Sentinel dial it no more, but an SL that was
// started with its address does.
func TestFounderGivesWayToSLsOfAnotherSwarm(t *testing.T) {
	sl, err := identity.ParseIDString("spiffe://swarm.learning/swarm/sl/sl-1")
	if err != nil {
		t.Fatal(err)
	}
	ctl, err := identity.ParseIDString("spiffe://swarm.learning/swarm/swci/x")
	if err != nil {
		t.Fatal(err)
	}
	second := epoch.Pin{SwarmID: "own", Epoch: 2, Digest: strings.Repeat("0", 24)}
	tests := map[string]struct {
		who   identity.ID
		swarm string
		wait  time.Duration
		ends  bool
	}{
		"an SL":                             {sl, "other", 5 * time.Second, true},
		"of this swarm":                     {sl, "own", 5 * time.Second, false},
		"of a later epoch of it":            {sl, second.String(), 5 * time.Second, false},
		"a user":                            {ctl, "other", 5 * time.Second, false},
		"one that founds without listening": {sl, "other", 0, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				view, _, err := state.New().Apply(state.InitSwarm{SwarmID: "own", AtMS: time.Now().UnixMilli()})
				if err != nil {
					t.Fatal(err)
				}
				if view, _, err = view.Apply(state.RegisterNode{
					Node: state.Node{Name: "sn-0", Role: "sn", PeerID: "idsn-0", Host: "h"}, TokenHash: strings.Repeat("0", 64), AtMS: 2,
				}); err != nil {
					t.Fatal(err)
				}
				s := &Member{
					cfg: Config{Name: "sn-0", StateDir: "/state", Options: Options{FoundAfter: tt.wait}, Pin: &Pin{at: epoch.First("own")}}, seekers: make(chan seeker, 1),
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				s.Strayed(tt.who, tt.swarm)
				err = s.GiveWay(ctx, lone{view})
				if (err != nil) != tt.ends {
					t.Fatalf("it ends with %v", err)
				}
				want := "SL sl-1 belongs to swarm \"other\" and takes this node for an SN of it; swarm own, which was founded here, is new and nobody has joined it: " +
					"delete the state directory /state and start this node with --join HOST of one of that swarm's SNs, or stop its nodes first"
				if tt.ends && err.Error() != want {
					t.Errorf("it says: %s", err)
				}
			})
		})
	}
}

// TestWhatWasRestoredGivesWayToNobody: a swarm that was new when it was backed up has one SN and no session, and its SLs name the epoch
// before.
func TestWhatWasRestoredGivesWayToNobody(t *testing.T) {
	sl, err := identity.ParseIDString("spiffe://swarm.learning/swarm/sl/sl-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"own", "other"} {
		synctest.Test(t, func(t *testing.T) {
			view := state.New()
			apply := func(c state.Command) {
				t.Helper()
				next, _, err := view.Apply(c)
				if err != nil {
					t.Fatal(err)
				}
				view = next
			}
			apply(state.InitSwarm{SwarmID: "own", AtMS: time.Now().UnixMilli()})
			had := view.LedgerHead()
			apply(state.RecoverSwarm{Recovery: ledger.Recovery{
				SwarmID: "own", Epoch: 2, Node: "sn-0", PeerID: "idnew", By: "spiffe://x/swarm/swci", Signature: []byte{1},
				Had: ledger.Witness{Length: had.Length, Hash: had.Hash},
			}})
			apply(state.RegisterNode{Node: state.Node{Name: "sn-0", Role: "sn", PeerID: "idnew", Host: "h"}, TokenHash: strings.Repeat("0", 64), AtMS: 2})
			s := &Member{
				cfg: Config{
					Name: "sn-0", StateDir: "/state", Options: Options{FoundAfter: 5 * time.Second}, Pin: &Pin{at: epoch.Of("own", view.Recoveries)},
				},
				seekers: make(chan seeker, 1),
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s.Strayed(sl, named)
			if err := s.GiveWay(ctx, lone{view}); err != nil {
				t.Errorf("an SL of swarm %q ends it: %v", named, err)
			}
		})
	}
}
