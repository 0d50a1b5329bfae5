package rpc_test

import (
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// TestHaltsOfAContract: operators pause, resume and end a training with their signature, others do not, and the view shows who has.
func TestHaltsOfAContract(t *testing.T) {
	s := newSwarm(t)
	must(s.core.Propose(t.Context(), state.RecordBundle{TrustDomain: "hospital.example", Certificates: [][]byte{{1}}, AtMS: 1}))(t)
	admin := s.as("/swarm/swci/admin")
	must(create(t, admin, &swarmv1.Rules{MinPeers: 1}))(t)
	sl, _ := newLearner(t, s, "sl-a")
	must(sl.open(t, idA, wireTerms(layout(t, 100), 1)))(t)
	pause := func(p *peer, name string, run uint64) (*swarmv1.ContractView, error) {
		res, err := p.contracts().PauseContract(t.Context(), signed(p, &swarmv1.PauseContractRequest{Contract: name, Run: run}))
		if err != nil {
			return nil, err
		}
		return res.Msg.GetContract(), nil
	}
	_, err := admin.contracts().PauseContract(t.Context(), with(admin, &swarmv1.PauseContractRequest{Contract: "study"}))
	wantReason(t, "unsigned", err, "ORDER_MISSING")
	_, err = sl.contracts().EndContract(t.Context(), with(sl, &swarmv1.EndContractRequest{Contract: "study"}))
	wantReason(t, "by an SL", err, "ROLE_DENIED")
	_, err = pause(admin, "no such?", 0)
	wantReason(t, "of no name", err, "BAD_REQUEST")
	_, err = pause(admin, "none", 0)
	wantReason(t, "of none", err, "CONTRACT_UNKNOWN")
	_, err = pause(admin, "study", 9)
	wantReason(t, "of another run", err, "STALE_RUN")
	for range 2 {
		view := must(pause(admin, "study", 1))(t)
		if h := view.GetHalt(); view.GetPhase() != "paused" || h.GetEnds() || h.GetBy() != "spiffe://hospital.example/swarm/swci/admin" || h.GetAtUnixMs() == 0 {
			t.Errorf("paused: %s, %v", view.GetPhase(), h)
		}
	}
	resumed := must(admin.contracts().ResumeContract(t.Context(), signed(admin, &swarmv1.ResumeContractRequest{Contract: "study", Run: 1})))(t)
	if view := resumed.Msg.GetContract(); view.GetPhase() != "training" || view.GetHalt() != nil {
		t.Errorf("resumed: %s, %v", view.GetPhase(), view.GetHalt())
	}
	ended := must(admin.contracts().EndContract(t.Context(), signed(admin, &swarmv1.EndContractRequest{Contract: "study", Run: 1})))(t)
	if view := ended.Msg.GetContract(); view.GetPhase() != "finalising" || !view.GetHalt().GetEnds() {
		t.Errorf("ended: %s, %v", view.GetPhase(), view.GetHalt())
	}
	_, err = pause(admin, "study", 1)
	wantReason(t, "paused while it is ended", err, "CONTRACT_OVER")
	var kinds []string
	for _, line := range s.core.Records() {
		r, body, err := ledger.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		switch body.(type) {
		case ledger.Pause, ledger.Resume, ledger.End:
			kinds = append(kinds, r.Kind)
		}
	}
	if len(kinds) != 3 || kinds[0] != "pause" || kinds[1] != "resume" || kinds[2] != "end" {
		t.Errorf("recorded: %v", kinds)
	}
}
