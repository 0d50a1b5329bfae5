package rpc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/rpc"
)

// listed are the nodes as an operator sees them, by name.
func (s *swarm) listed() map[string]*swarmv1.Node {
	s.t.Helper()
	p := s.as("/swarm/swci")
	res, err := p.nodes().ListNodes(s.t.Context(), with(p, &swarmv1.ListNodesRequest{}))
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]*swarmv1.Node{}
	for _, n := range res.Msg.GetNodes() {
		out[n.GetName()] = n
	}
	return out
}

// TestLinksAreTold: what a node says of its connections shows in the list of nodes and in health, bounded, as old as it is, and with the SN
// through which it came; what was said long ago, and by whom is banned or left, does not.
func TestLinksAreTold(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/sl")
	p.register(t, "sl-0", nodeKey(t))
	if l := s.listed()["sl-0"].GetLinks(); l != nil {
		t.Errorf("before its first report: %v", l)
	}
	h := wellNode()
	h.Links = &swarmv1.NodeLinks{Contract: "c", Sn: "sn-of-its-own", Links: []*swarmv1.NodeLink{{Node: "sl-1\x1b[2J", Address: "b.example:16000", Cause: "timeout", SinceSeconds: 20}}}
	if err := p.report(t, h); err != nil {
		t.Fatal(err)
	}
	s.later.Store(int64(10 * time.Second))
	for where, l := range map[string]*swarmv1.NodeLinks{"list": s.listed()["sl-0"].GetLinks(), "health": s.healths()["sl-0"].GetLinks()} {
		if l.GetContract() != "c" || l.GetSn() != "sn-0" || len(l.GetLinks()) != 1 || l.GetLinks()[0].GetSinceSeconds() != 30 || strings.Contains(l.GetLinks()[0].GetNode(), "\x1b") {
			t.Errorf("%s: %v", where, l)
		}
	}
	s.later.Store(int64(2 * time.Minute))
	if l := s.listed()["sl-0"].GetLinks(); l != nil {
		t.Errorf("two minutes later: %v", l)
	}
	s.later.Store(0)
	if l := s.healths()["sl-0"].GetLinks(); l == nil {
		t.Error("nothing is told any more")
	}
	id := s.core.View().Nodes["sl-0"].PeerID
	must(s.core.Propose(t.Context(), state.BanNode{PeerID: id, By: "spiffe://hospital.example/swarm/swci", AtMS: 4}))(t)
	if l := s.healths()["sl-0"].GetLinks(); l != nil {
		t.Errorf("of a banned node: %v", l)
	}
}

// TestLinksOfManyHaveABound: nodes can't make an answer large, whatever they say.
func TestLinksOfManyHaveABound(t *testing.T) {
	var all []*swarmv1.NodeLinks
	for range 100 {
		l := &swarmv1.NodeLinks{Contract: "c", Sn: "sn-0"}
		for i := range 100 {
			l.Links = append(l.Links, &swarmv1.NodeLink{Node: fmt.Sprint("sl-", i), Address: "b.example:16000", Cause: "timeout"})
		}
		all = append(all, l)
	}
	size, whole, cut := 0, 0, 0
	for _, l := range rpc.FitLinks(all) {
		size += proto.Size(l)
		if len(l.GetLinks()) == 100 {
			whole++
		} else if l.GetMore() == 100 && l.GetContract() == "c" && l.GetSn() == "sn-0" {
			cut++
		}
	}
	if size > 260<<10 || whole == 0 || cut == 0 || whole+cut != 100 {
		t.Errorf("%d bytes, %d whole, %d cut", size, whole, cut)
	}
}
