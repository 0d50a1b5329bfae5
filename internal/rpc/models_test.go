package rpc_test

import (
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

func (p *peer) models(t *testing.T, contract string) (*swarmv1.ListModelsResponse, error) {
	t.Helper()
	res, err := swarmv1connect.NewModelServiceClient(p.http, p.url()).ListModels(t.Context(), with(p, &swarmv1.ListModelsRequest{Contract: contract}))
	if err != nil {
		return nil, err
	}
	return res.Msg, nil
}

// TestListModels holds that models are listed newest first with those who live and hold them, and that it is said who had
// what nobody holds.
func TestListModels(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	b, _ := newLearner(t, s, "sl-b")
	terms := wireTerms(layout(t, 100), 2)
	for id, p := range map[string]*peer{idA: a, idB: b} {
		if _, err := p.open(t, id, terms); err != nil {
			t.Fatal(err)
		}
	}
	op := s.as("/swarm/swci")
	got, err := op.models(t, "study")
	if err != nil || len(got.GetModels()) != 0 || !strings.Contains(got.GetNote(), "no round") || string(got.GetLayout()) != string(terms.GetLayout()) || got.GetExport() {
		t.Fatalf("before the first round: %v, %v", got, err)
	}
	first, second := strings.Repeat("1", 64), strings.Repeat("2", 64)
	c := s.core.View().Contracts["study"]
	parts := []state.Participant{{Session: idA, Node: "sl-a", Weight: 1, ShardLeaves: c.Terms.Leaves}, {Session: idB, Node: "sl-b", Weight: 1, ShardFirst: c.Terms.Leaves}}
	for _, cmd := range []state.Command{
		state.PlanRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Participants: parts},
		state.CommitRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Digest: second, NextInterval: 1, AtMS: 77},
	} {
		if _, err := s.core.Propose(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
	}
	got, err = op.models(t, "study")
	if err != nil || len(got.GetModels()) != 0 || !strings.Contains(got.GetNote(), "the model of round 1 is held by no node that runs: last by sl-a, sl-b") {
		t.Errorf("held by nobody: %v, %v", got, err)
	}
	s.lead.Answer = planner.Status{Leading: true, Held: map[string][]round.Model{
		idB: {{Round: 1, Digest: second}}, idA: {{Round: 1, Digest: second}, {Round: 0, Digest: first, State: second}}, idC: {{Round: 9, Digest: first}},
	}}
	got, err = a.models(t, "study")
	if err != nil || len(got.GetModels()) != 2 || got.GetNote() != "" || got.GetRun() != 1 || got.GetMethod() != "mean" {
		t.Fatalf("%v, %v", got, err)
	}
	m := got.GetModels()[0]
	if m.GetRound() != 1 || m.GetDigest() != second || m.GetCommittedUnixMs() != 77 || m.GetFinal() || len(m.GetHolders()) != 2 ||
		m.GetHolders()[0].GetNode() != "sl-a" || m.GetHolders()[0].GetPeerId() == "" || m.GetHolders()[0].GetSpiffeId() == "" {
		t.Errorf("newest: %v", m)
	}
	if m := got.GetModels()[1]; m.GetDigest() != first || m.GetStateDigest() != second || len(m.GetHolders()) != 1 {
		t.Errorf("older: %v", m)
	}
	if _, err := s.core.Propose(t.Context(), state.SetLive{Node: "sl-b", AtMS: 1}); err != nil {
		t.Fatal(err)
	}
	if got, err = op.models(t, "study"); err != nil || len(got.GetModels()[0].GetHolders()) != 1 {
		t.Errorf("a dead node counts: %v, %v", got, err)
	}
	_, err = op.models(t, "none")
	wantReason(t, "unknown contract", err, "CONTRACT_UNKNOWN")
	_, err = op.models(t, "no such name")
	wantReason(t, "bad name", err, "BAD_REQUEST")
}
