package consensus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
)

func ban(name string) state.BanNode {
	return state.BanNode{PeerID: "id" + name, Reason: "copied", By: "spiffe://a.example/swarm/swci", AtMS: 1}
}

// member reports whether a server is in the configuration as another one sees it.
func (s *swarm) member(on, name string) bool {
	for _, m := range s.servers[on].Servers() {
		if m.Name == name {
			return true
		}
	}
	return false
}

func TestBannedServerIsExpelledAndStaysOut(t *testing.T) {
	for _, who := range []string{"follower", "leader"} {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				all := []string{"a", "b", "c"}
				s.form(all...)
				leader := s.leader(all...).name
				victim := others(all, leader)[0]
				via := others(all, leader)[1]
				if who == "leader" {
					victim = leader
				}
				if _, err := s.servers[via].Propose(s.within(20*time.Second), ban(victim)); err != nil {
					t.Fatal(err)
				}
				rest := others(all, victim)
				s.leader(rest...)
				s.propose(rest[0], "sl-0")
				s.converged(rest...)
				if v := s.servers[rest[0]].View(); v.Banned("id"+victim) == nil || s.member(rest[0], victim) {
					t.Fatalf("bans %+v, %s is a member: %t", v.Bans, victim, s.member(rest[0], victim))
				}
				time.Sleep(2 * time.Minute) // it asks to be let in again every five seconds
				if s.member(rest[0], victim) || s.servers[victim].View().Nodes["sl-0"] != nil {
					t.Errorf("%s is back, or has heard of what came after its ban", victim)
				}
				_, err := s.servers[victim].Propose(s.within(5*time.Second), registerSL("sl-1"))
				if !errors.Is(err, consensus.ErrNoLeader) || s.servers[rest[0]].View().Nodes["sl-1"] != nil {
					t.Errorf("a banned server proposes: %v", err)
				}
				if _, err := s.servers[rest[0]].Propose(s.within(5*time.Second), ban(victim)); err != nil {
					t.Errorf("again: %v", err)
				}
				if _, err := s.servers[rest[1]].Propose(s.within(5*time.Second), state.UnbanNode{PeerID: "id" + victim}); err != nil {
					t.Fatal(err)
				}
				s.until("the server to be back", func() bool { return s.member(rest[0], victim) })
				s.propose(victim, "sl-2")
			})
		})
	}
}

func TestBannedServerMayNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a", "b")
		if _, err := s.servers["b"].Propose(s.within(10*time.Second), ban("c")); err != nil {
			t.Fatal(err)
		}
		err := s.start("c").Join(s.within(30*time.Second), []string{address("a")}, joinRequest("c"))
		var refusal *consensus.JoinRefusal
		if !errors.Is(err, consensus.ErrRefused) || !errors.As(err, &refusal) || refusal.Reason != state.ReasonBanned || refusal.Remedy == "" {
			t.Errorf("join: %v", err)
		}
	})
}

func TestBanThatWouldCostTheMajorityIsRefused(t *testing.T) {
	tests := map[string]struct {
		all     []string
		stopped int // of the followers
		victim  func(leader string, followers []string) string
		want    string
	}{
		"the only SN": {[]string{"a"}, 0, func(l string, _ []string) string { return l }, state.ReasonLastSN},
		"the leader while the other is down": {
			[]string{"a", "b", "c"}, 1, func(l string, _ []string) string { return l }, state.ReasonQuorum,
		},
		"a follower while the other is down": {
			[]string{"a", "b", "c"}, 1, func(_ string, f []string) string { return f[1] }, state.ReasonQuorum,
		},
		"the one that is down": {
			[]string{"a", "b", "c"}, 1, func(_ string, f []string) string { return f[0] }, "",
		},
		"one of two": {[]string{"a", "b"}, 0, func(_ string, f []string) string { return f[0] }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				s.form(tt.all...)
				leader := s.leader(tt.all...).name
				followers := others(tt.all, leader)
				for _, f := range followers[:tt.stopped] {
					s.stop(f)
				}
				victim := tt.victim(leader, followers)
				via := leader
				if victim == leader && len(followers) > 0 {
					via = followers[len(followers)-1]
				}
				_, err := s.servers[via].Propose(s.within(20*time.Second), ban(victim))
				if got := state.ReasonOf(err); got != tt.want || (err == nil) != (tt.want == "") {
					t.Fatalf("reason %q (%v), want %q", got, err, tt.want)
				}
				// Either way the swarm goes on, and who was not banned is still in.
				s.propose(leader, "sl-0")
				if got := s.member(leader, victim); got != (tt.want != "") {
					t.Errorf("%s is a member: %t", victim, got)
				}
			})
		})
	}
}

// TestBanByOtherMeansExpels: a ban that reached the log without Ban, as from an SN that crashed half way.
func TestBanByOtherMeansExpels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		all := []string{"a", "b", "c"}
		s.form(all...)
		leader := s.leader(all...).name
		if err := consensus.ProposeBare(s.servers[leader].Group, ban(leader)); err != nil {
			t.Fatal(err)
		}
		rest := others(all, leader)
		s.until("the leader to be expelled", func() bool { return !s.member(rest[0], leader) })
		s.leader(rest...)
		s.propose(rest[1], "sl-0")
	})
}

// TestMembersOnlyAreAnswered: an SN that is not of the configuration asks for nothing, on no way.
func TestMembersOnlyAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a", "b", "c")
		leader := s.leader("a", "b", "c")
		stranger := s.linksOf(s.net.node(consensus.Peer{PeerID: "idx", Role: "sn"}))
		if err := consensus.AskStats(s.within(10*time.Second), stranger, address(leader.name)); err == nil {
			t.Error("a stranger was told how far the log is")
		}
		if _, err := proposeBy(s.within(10*time.Second), stranger.To(address(leader.name)), registerSL("sl-0")); err == nil || leader.View().Nodes["sl-0"] != nil {
			t.Errorf("a stranger reached the API (%v), or proposed", err)
		}
		learner := s.linksOf(s.net.node(consensus.Peer{PeerID: "idy", Role: "sl"}))
		if err := consensus.AskStats(s.within(10*time.Second), learner, address(leader.name)); err == nil {
			t.Error("an SL was told how far the log is")
		}
		// The same words of a member are taken: b's own node, which the network proves.
		member := s.linksOf(s.net.nodes["id"+others([]string{"a", "b", "c"}, leader.name)[0]])
		if err := consensus.AskStats(s.within(10*time.Second), member, address(leader.name)); err != nil {
			t.Errorf("a member was not answered: %v", err)
		}
		if _, err := proposeBy(s.within(10*time.Second), member.To(address(leader.name)), registerSL("sl-0")); err != nil || leader.View().Nodes["sl-0"] == nil {
			t.Errorf("a member did not reach the API: %v", err)
		}
	})
}

// TestStolenNodeKeyIsNoMember: a member's node key with another SN's SVID opens no stream.
func TestStolenNodeKeyIsNoMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a", "b")
		own := consensus.Peer{PeerID: "idc", Role: "sn", SPIFFEID: "spiffe://d/swarm/sn/c", NodeName: "c"}
		cfg := s.config("c")
		cfg.Network = s.net.node(own)
		if err := s.startWith(cfg).Join(s.within(30*time.Second), []string{address("b")}, joinRequest("c")); err != nil {
			t.Fatal(err)
		}
		leader := s.leader("a", "b")
		thief := own
		thief.SPIFFEID, thief.NodeName = "spiffe://d/swarm/sn/x", "x"
		for _, c := range []struct {
			peer consensus.Peer
			want bool
		}{{thief, false}, {own, true}} {
			if got := consensus.Allows(leader.Group, c.peer); got != c.want {
				t.Errorf("streams of %s: allowed %v", c.peer.SPIFFEID, got)
			}
		}
	})
}

// TestJoinDoesNotHoldUpOthersForEver: who waits for the configuration to be free gives up with its context.
func TestJoinDoesNotHoldUpOthersForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a")
		release := consensus.HoldConfiguration(s.servers["a"].Group)
		defer release()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if _, err := s.servers["a"].Propose(ctx, ban("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ban: %v", err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
