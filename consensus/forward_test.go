package consensus_test

import (
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// TestEveryCommandIsForwardedOrNot: whoever adds a command decides here who may propose it. A follower passes on what the
// API's callers ask for; what the leader decides it must not take from others.
func TestEveryCommandIsForwardedOrNot(t *testing.T) {
	decided := []struct {
		command   state.Command
		forwarded bool
	}{
		{state.InitSwarm{}, false},
		{state.RecordBundle{}, false},
		{state.RegisterNode{Node: state.Node{Role: naming.RoleSL}}, true},
		{state.RegisterNode{Node: state.Node{Role: naming.RoleSWOP}}, true},
		{state.RegisterNode{Node: state.Node{Role: naming.RoleSN}}, false},
		{state.ForgetNode{}, true},
		{state.SetLive{}, false},
		{state.LeaveNode{}, true},
		{state.BanNode{}, false}, // Ban expels first
		{state.UnbanNode{}, true},
		{state.AdmitNode{}, true},
		{state.OpenSession{}, true},
		{state.CloseSession{}, true},
		{state.EndSession{}, true},
		{state.PlanRound{}, false},
		{state.CancelPlan{}, false},
		{state.CommitRound{}, false},
		{state.FinishContract{}, false},
		{state.ResetContract{}, true},
		{state.DeleteContract{}, true},
		{state.CreateContract{}, true},
		{state.FailContract{}, false},
		{state.SkipRound{}, false},
		{state.ExpireContract{}, false},
		{state.RecordFetch{}, true},
		{state.LoseModel{}, false},
		{state.AdoptRound{}, false},
	}
	seen := map[string]bool{}
	for _, d := range decided {
		seen[d.command.Type()] = true
		if got := consensus.MayForward(d.command); got != d.forwarded {
			t.Errorf("%s is forwarded: %t, want %t", d.command.Type(), got, d.forwarded)
		}
	}
	for _, name := range state.Types() {
		if !seen[name] {
			t.Errorf("%s: decide whether the leader takes it from other SNs, here and in forwarded", name)
		}
	}
}

// TestFollowerProposesNothingOfTheLeaders: a rogue SN that does not lead has the leader propose what only that decides.
func TestFollowerProposesNothingOfTheLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		s.propose("a", "sl-0")
		leader := s.leader(three...).name
		propose := s.forward(others(three, leader)[0], leader)
		fake := register("fake")
		for _, c := range []state.Command{
			fake,
			state.SetLive{Node: "sl-0", AtMS: 1},
			state.InitSwarm{SwarmID: "swarm1", AtMS: 1},
			state.LoseModel{Contract: state.DefaultContract, Run: 1, Round: 1},
			state.AdoptRound{Contract: state.DefaultContract, Run: 1, Round: 1},
			state.BundleOf("evil.example", [][]byte{{1}}, 1),
			state.BanNode{PeerID: "ida", By: "spiffe://a.example/swarm/swci", AtMS: 1},
		} {
			if err := propose(c); err == nil {
				t.Errorf("%s was taken from a follower", c.Type())
			}
		}
		v := s.servers[leader].View()
		if v.Nodes["fake"] != nil || !v.Nodes["sl-0"].Live || len(v.Bundles) > 0 || len(v.Bans) > 0 {
			t.Error("the state has changed")
		}
		if err := propose(registerSL("sl-1")); err != nil {
			t.Errorf("an SL's registration: %v", err)
		}
	})
}
