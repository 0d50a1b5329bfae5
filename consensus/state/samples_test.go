package state_test

import (
	"math"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// bySamples is a contract of sessions whose weights are numbers of samples, of which none is known at first.
func bySamples(t *testing.T, rules state.Rules) *state.State {
	t.Helper()
	s := mustApply(t, state.New(), state.CreateContract{Contract: state.DefaultContract, Rules: rules})
	for _, id := range []string{"1", "2"} {
		s = mustApply(t, s, state.RegisterNode{Node: state.Node{Name: "sl-" + id, Role: naming.RoleSL, PeerID: "sl-" + id}, TokenHash: hexOf("1", 64)})
		s = mustApply(t, s, opens(id, state.WeightsSamples))
	}
	return s
}

func opens(id, weights string) state.OpenSession {
	o := state.OpenSession{Session: hexOf(id, 32), Contract: state.DefaultContract, Node: "sl-" + id, Terms: terms("a", 2), SyncFrequency: 1, Weight: 1}
	o.Terms.Weights = weights
	return o
}

// planned is the plan of a round of both sessions with these weights.
func planned(first, second uint32) state.PlanRound {
	return state.PlanRound{Contract: state.DefaultContract, Run: 1, Round: 1, Attempt: 1, Participants: []state.Participant{
		{Session: hexOf("1", 32), Node: "sl-1", Weight: first, ShardLeaves: 7}, {Session: hexOf("2", 32), Node: "sl-2", Weight: second},
	}}
}

// TestSessionsWeighByTheirSamples: a committed round's numbers of samples become the sessions', as does that of a close; where a cap counts
// them finer they stay.
func TestSessionsWeighByTheirSamples(t *testing.T) {
	commit := state.CommitRound{Contract: state.DefaultContract, Run: 1, Round: 1, Attempt: 1, Digest: hexOf("d", 64), NextInterval: 1}
	for _, tt := range []struct {
		rules state.Rules
		want  uint32
	}{{state.Rules{}, 60_000}, {state.Rules{WeightCapPPM: state.PPM}, 1}} {
		s := mustApply(t, mustApply(t, bySamples(t, tt.rules), planned(60_000, 0)), commit)
		sessions := s.Contracts[state.DefaultContract].Sessions
		if a, b := sessions[hexOf("1", 32)].Weight, sessions[hexOf("2", 32)].Weight; a != tt.want || b != 1 {
			t.Errorf("under %+v: weights %d and %d, want %d and 1", tt.rules, a, b, tt.want)
		}
		for _, told := range []*uint32{nil, new(uint32(0)), new(uint32(300)), new(uint32(math.MaxUint32))} {
			closed := mustApply(t, s, state.CloseSession{Session: hexOf("1", 32), Contract: state.DefaultContract, Run: 1, Weight: told})
			want := tt.want
			if told != nil {
				want = min(*told, state.MaxSamples)
			}
			if got := closed.Contracts[state.DefaultContract].Sessions[hexOf("1", 32)].Weight; got != want {
				t.Errorf("under %+v: closed with the weight %d, want %d", tt.rules, got, want)
			}
		}
	}
}

// TestSamplesAreBounded: a plan may have as many samples as a session can have, with a cap too; without samples the weights of before.
func TestSamplesAreBounded(t *testing.T) {
	for _, rules := range []state.Rules{{}, {WeightCapPPM: state.PPM}} {
		s := bySamples(t, rules)
		mustApply(t, s, planned(state.MaxSamples, 1))
		if _, _, err := s.Apply(planned(state.MaxSamples+1, 1)); state.ReasonOf(err) != state.ReasonBadCommand {
			t.Errorf("under %+v: %v", rules, err)
		}
	}
	s := applied(t, enrolled)
	p := planned(state.MaxWeight+1, 1)
	p.Participants[0].Node, p.Participants[1].Node = "sl-0", "sl-1"
	if _, _, err := s.Apply(p); state.ReasonOf(err) != state.ReasonBadCommand {
		t.Errorf("without samples: %v", err)
	}
	if s = mustApply(t, s, state.CloseSession{Session: hexOf("1", 32), Contract: state.DefaultContract, Run: 1, Weight: new(uint32(300))}); s.Contracts[state.DefaultContract].Sessions[hexOf("1", 32)].Weight != 1 {
		t.Error("a close gives another weight though weights are no numbers of samples")
	}
}

// TestALeastShareNeedsWeightsThatStay: of a contract that is trained with numbers of samples nobody could open a session under the rule.
func TestALeastShareNeedsWeightsThatStay(t *testing.T) {
	s := mustApply(t, bySamples(t, state.Rules{}), planned(30, 300))
	s = mustApply(t, s, state.CommitRound{Contract: state.DefaultContract, Run: 1, Round: 1, Attempt: 1, Digest: hexOf("d", 64), NextInterval: 1})
	for _, id := range []string{"1", "2"} {
		s = mustApply(t, s, state.EndSession{Session: hexOf(id, 32), Contract: state.DefaultContract, Run: 1, Reason: "failed"})
	}
	_, _, err := s.Apply(state.CreateContract{Contract: state.DefaultContract, Rules: state.Rules{MinWeightSharePPM: 500_000}})
	if state.ReasonOf(err) != state.ReasonTermsMismatch {
		t.Errorf("the rule was taken: %v", err)
	}
}

// TestSamplesOfAllOrNone: whoever weighs otherwise than the contract is refused, and so are samples under a rule that counts the weights at
// the enrolment.
func TestSamplesOfAllOrNone(t *testing.T) {
	s := bySamples(t, state.Rules{})
	s = mustApply(t, s, state.RegisterNode{Node: state.Node{Name: "sl-3", Role: naming.RoleSL, PeerID: "sl-3"}, TokenHash: hexOf("1", 64)})
	_, _, err := s.Apply(opens("3", ""))
	if state.ReasonOf(err) != state.ReasonTermsMismatch || !strings.Contains(err.Error(), "minPeers 2, weights samples") {
		t.Errorf("a number beside samples: %v", err)
	}
	ruled := mustApply(t, state.New(), state.CreateContract{Contract: state.DefaultContract, Rules: state.Rules{MinWeightSharePPM: 1}})
	ruled = mustApply(t, ruled, state.RegisterNode{Node: state.Node{Name: "sl-1", Role: naming.RoleSL, PeerID: "sl-1"}, TokenHash: hexOf("1", 64)})
	if _, _, err = ruled.Apply(opens("1", state.WeightsSamples)); state.ReasonOf(err) != state.ReasonTermsMismatch {
		t.Errorf("samples under a share of the enrolled weight: %v", err)
	}
	mustApply(t, ruled, opens("1", ""))
}
