package rpc_test

import (
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/warning"
)

// TestHeartbeatsTellWarnings: a node hears once of what is wrong with the training of its own session, people in a contract's status.
func TestHeartbeatsTellWarnings(t *testing.T) {
	s := newSwarm(t)
	a, b := s.as("/swarm/sl"), s.as("/swarm/sl")
	a.register(t, "sl-a", nodeKey(t))
	b.register(t, "sl-b", nodeKey(t))
	if _, err := a.open(t, idA, wireTerms(layout(t, 100), 1)); err != nil {
		t.Fatal(err)
	}
	seen := ""
	beat := func(p *peer) *swarmv1.ReportResponse {
		t.Helper()
		res, _ := p.sessions().Report(t.Context(), with(p, &swarmv1.ReportRequest{
			WarningsSeen: seen, Sessions: []*swarmv1.SessionReport{{Session: idA, Contract: "study", Run: 1, Trained: &swarmv1.Trained{Seq: 2}}},
		}))
		if res == nil {
			return nil // the session is another node's
		}
		return res.Msg
	}
	if res := beat(a); !res.GetTakesTrained() || len(res.GetWarnings()) > 0 || res.GetWarningsDigest() != "" {
		t.Errorf("nothing is wrong: %v", res)
	}
	if last := s.lead.Reports(); len(last) != 1 || last[0].Trained == nil || last[0].Trained.Seq != 2 {
		t.Errorf("recorded %+v", last)
	}
	w := warning.Warning{Reason: warning.NoData, Node: "sl-z", Text: "sl-z has trained no batch", Advice: true}
	s.lead.Wrong, s.lead.Answer = []warning.Warning{w}, planner.Status{Leading: true, Waiting: planner.Waiting{Kind: planner.WaitSessions}, Warnings: []warning.Warning{w}}
	res := beat(a)
	if got := res.GetWarnings(); len(got) != 1 || got[0].GetSession() != idA || len(got[0].GetWarnings()) != 1 || got[0].GetWarnings()[0].GetText() != w.Text {
		t.Fatalf("got %v", res)
	}
	seen = res.GetWarningsDigest()
	if res := beat(a); res.GetWarningsDigest() != seen || len(res.GetWarnings()) > 0 {
		t.Errorf("told again: %v", res)
	}
	if res := beat(b); len(res.GetWarnings()) > 0 {
		t.Errorf("told to another node: %v", res)
	}
	st, err := a.contracts().GetContractStatus(t.Context(), with(a, &swarmv1.GetContractStatusRequest{Contract: "study"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := st.Msg.GetTrainingWarnings(); len(got) != 1 || got[0].GetReason() != "NO_DATA" || got[0].GetNode() != "sl-z" || !got[0].GetAdvice() {
		t.Errorf("status has %v", got)
	}
	all := strings.Join(append(st.Msg.GetWarnings(), st.Msg.GetExplanation()...), "\n")
	if strings.Count(all, w.Text) != 2 || !strings.Contains(all, "\nadvice: "+w.Text) {
		t.Errorf("said to people:\n%s", all)
	}
	_, err = a.sessions().Report(t.Context(), with(a, &swarmv1.ReportRequest{WarningsSeen: strings.Repeat("x", 1000)}))
	wantReason(t, "long digest", err, "BAD_REQUEST")
}
