package rpc_test

import (
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/state"
)

// TestNoQuorum: what only a leader can do is refused in one line that says how many SNs answer and which do not; what this SN knows it
// shows, and says that it may be old.
func TestNoQuorum(t *testing.T) {
	s := newSwarm(t)
	s.as("/swarm/sl").register(t, "sl-0", nodeKey(t))
	p := s.as("/swarm/swci")
	forget := signed(p, &swarmv1.ForgetNodeRequest{Name: "sl-0"})
	seen := time.UnixMilli(7000)
	s.core.SetQuorum(&quorum.Error{LeaderSeen: seen, Count: quorum.Count{
		Answer:  []quorum.Voter{{Name: "sn-0", Address: "10.0.0.1:30303"}},
		Missing: []quorum.Voter{{Name: "sn-1", Address: "10.0.0.2:30303"}, {Name: "sn-2", Address: "10.0.0.3:30303"}},
	}})
	const words, missing = "no quorum: 1 of 3 SNs answer", "start one of sn-1 (10.0.0.2:30303), sn-2 (10.0.0.3:30303)"
	for what, call := range map[string]func() error{
		"forget": func() error { _, err := p.nodes().ForgetNode(t.Context(), forget); return err },
		"nonce": func() error {
			_, err := p.nodes().Challenge(t.Context(), with(p, &swarmv1.ChallengeRequest{}))
			return err
		},
		"unknown contract": func() error {
			_, err := p.contracts().GetContractStatus(t.Context(), with(p, &swarmv1.GetContractStatusRequest{Contract: "elsewhere"}))
			return err
		},
	} {
		err := call()
		wantReason(t, what, err, "NO_QUORUM")
		if remedy := detail(err).GetRemedy(); !strings.HasSuffix(err.Error(), words) || !strings.HasPrefix(remedy, missing) || !strings.Contains(remedy, "stop one that is left, and as an operator on its host: swarmd recover-sn") {
			t.Errorf("%s: %v; %s", what, err, remedy)
		}
	}
	nodes := must(p.nodes().ListNodes(t.Context(), with(p, &swarmv1.ListNodesRequest{})))(t).Msg
	contracts := must(p.contracts().ListContracts(t.Context(), with(p, &swarmv1.ListContractsRequest{})))(t).Msg
	status := must(p.contracts().GetContractStatus(t.Context(), with(p, &swarmv1.GetContractStatusRequest{Contract: state.DefaultContract})))(t).Msg
	for what, q := range map[string]*swarmv1.NoQuorum{"nodes": nodes.GetNoQuorum(), "contracts": contracts.GetNoQuorum(), "status": status.GetNoQuorum()} {
		if q.GetMessage() != words || q.GetSn() != "sn-0" || len(q.GetAnswering()) != 1 || len(q.GetMissing()) != 2 || q.GetMissing()[1].GetAddress() != "10.0.0.3:30303" ||
			q.GetLeaderSeenUnixMs() != 7000 || !strings.HasPrefix(q.GetRemedy(), missing) {
			t.Errorf("%s: %v", what, q)
		}
	}
	if len(nodes.GetNodes()) != 2 || status.GetWaiting() != words || !strings.Contains(strings.Join(status.GetExplanation(), "\n"), "to do: "+missing) {
		t.Errorf("%d nodes; waiting %q; %q", len(nodes.GetNodes()), status.GetWaiting(), status.GetExplanation())
	}
	s.core.SetQuorum(nil)
	s.core.SetLeader("")
	_, err := p.contracts().GetContractStatus(t.Context(), with(p, &swarmv1.GetContractStatusRequest{Contract: "elsewhere"}))
	wantReason(t, "unknown contract, while nobody leads and how many answer is not known", err, "NO_LEADER")
	s.core.SetLeader("sn-0")
	if q := must(p.nodes().ListNodes(t.Context(), with(p, &swarmv1.ListNodesRequest{})))(t).Msg.GetNoQuorum(); q != nil {
		t.Errorf("with a leader: %v", q)
	}
}
