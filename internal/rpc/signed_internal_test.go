package rpc

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestPlanDigestsAreOfTheStateAtHand: what is kept of one state is not said of another, nor of another contract.
func TestPlanDigestsAreOfTheStateAtHand(t *testing.T) {
	contract := func(name string) *state.Contract {
		return &state.Contract{
			Name: name, Run: 1, Terms: &state.Terms{LayoutDigest: strings.Repeat("1", 64)},
			Plan: &state.Plan{
				Run: 1, Round: 1, Attempt: 1, Method: "mean", LedgerHash: strings.Repeat("2", 64),
				Participants: []state.Participant{{Session: "s", Node: "sl-0", Weight: 1, ShardLeaves: 1}},
			},
		}
	}
	node := func(key string) *state.State {
		return &state.State{Nodes: map[string]*state.Node{"sl-0": {Name: "sl-0", PeerID: key}}}
	}
	var kept seals
	old, renewed, a, b := node("a key"), node("another key"), contract("a"), contract("b")
	for range 2 {
		for _, view := range []*state.State{old, renewed} {
			for _, c := range []*state.Contract{a, a, b} {
				plan, ledger, err := kept.planDigests(view, c)
				if err != nil {
					t.Fatal(err)
				}
				if wantPlan, wantLedger, _ := planDigests(view, c); plan != wantPlan || ledger != wantLedger {
					t.Errorf("contract %s, key %q: %s on %s, want %s on %s", c.Name, view.Nodes["sl-0"].PeerID, plan, ledger, wantPlan, wantLedger)
				}
			}
		}
	}
	a.Terms.LayoutDigest = "bad"
	if _, _, err := kept.planDigests(node("a key"), a); err == nil {
		t.Error("a bad digest is no error")
	}
}
