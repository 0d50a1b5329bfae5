package rpc_test

import (
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
)

func TestListNodesNamesTheSNOfAReport(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/sl")
	p.register(t, "sl-0", nodeKey(t))
	q := s.as("/swarm/sl")
	q.register(t, "sl-1", nodeKey(t))
	if err := p.report(t, wellNode()); err != nil {
		t.Fatal(err)
	}
	list := func() map[string]string {
		t.Helper()
		c := s.as("/swarm/swci")
		res, err := swarmv1connect.NewNodeServiceClient(c.http, c.url()).ListNodes(t.Context(), with(c, &swarmv1.ListNodesRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		via := map[string]string{}
		for _, n := range res.Msg.GetNodes() {
			via[n.GetName()] = n.GetSn()
		}
		return via
	}
	if via := list(); len(via) != 3 || via["sl-0"] != "sn-0" || via["sl-1"] != "" || via["sn-0"] != "" {
		t.Errorf("nodes report through %v", via)
	}
	// A leader that does not tell is no reason to hide the nodes.
	s.core.SetLeader("sn-9")
	if via := list(); len(via) != 3 || via["sl-0"] != "" {
		t.Errorf("without the leader's answer: %v", via)
	}
}
