package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/client"
)

// hostAt is a host that says and signs where it is reached.
func (s *swarm) hostAt(name, address, sn string) client.Host {
	s.t.Helper()
	reg := registration(s.t, name)
	reg.Node.Role, reg.Node.Host, reg.Node.Offer = "swop", address, &task.Offer{Taskrunner: task.DefaultTaskrunner, Peers: 2}
	h := client.Host{Client: s.client("/swarm/swop", nil, sn)}
	if err := h.Register(s.t.Context(), reg); err != nil {
		s.t.Fatal(err)
	}
	return h
}

// TestAddressesAreSigned: where members are, their hosts have signed; an SN that says something else, or nothing of that, is not believed, and a host
// takes nobody's word for where it is itself.
func TestAddressesAreSigned(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	h := s.hostAt("h-1", "10.0.0.1", a.addr)
	other := s.hostAt("h-2", "host-2.lan", a.addr)
	op := client.Tasks{By: client.Operator{Client: s.client("/swarm/swci", nil, a.addr)}}
	ctx := t.Context()
	must(op.CreateTask(ctx, &swarmv1.CreateTaskRequest{Name: "x.1", Type: task.RunJob, Author: "me", Prereq: task.Root}))(t)
	must(op.EditTask(ctx, "x.1", 1, "name: x"))(t)
	final := must(op.FinaliseTask(ctx, "x.1", must(op.GetTask(ctx, "x.1"))(t).GetDigest()))(t)
	placed := func(hosts ...string) (id string) {
		t.Helper()
		id = must(op.AssignTask(ctx, &swarmv1.AssignTaskRequest{
			Task: "x.1", Digest: final.GetDigest(), Hosts: hosts, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(), Groups: []*swarmv1.TaskGroup{{Name: "peers", Peers: uint32(len(hosts)), Least: 1}},
		}))(t).GetId()
		var members []task.Placement
		for _, h := range hosts {
			members = append(members, task.Placement{Node: h, Group: "peers", Peers: 1})
		}
		must(s.core.Propose(ctx, state.MoveAssignments{AtMS: 5, Moves: []task.Move{{Assignment: id, Do: task.Place, Members: members}}}))(t)
		return id
	}
	one := placed("h-1")
	for _, from := range []client.Host{h, other} {
		if sites := must(from.World(ctx, one, 1))(t); len(sites) != 1 || sites[0].Address != "10.0.0.1" {
			t.Errorf("one host: %+v", sites)
		}
	}
	two := placed("h-1", "h-2")
	want := []task.Site{{Node: "h-1", Group: "peers", Address: "10.0.0.1"}, {Node: "h-2", Group: "peers", Address: "host-2.lan"}}
	if d := cmp.Diff(want, must(h.World(t.Context(), two, 1))(t)); d != "" {
		t.Error(d)
	}
	node := *s.core.View().Nodes["h-2"]
	own := *s.core.View().Nodes["h-1"]
	for name, tt := range map[string]struct {
		change func(*state.RegisterNode)
		want   string
	}{
		"another address":     {func(r *state.RegisterNode) { r.Node.Host = "10.6.6.6" }, `host h-2: spiffe://hospital.example/swarm/swop has not signed for the address "10.6.6.6"`},
		"another's signature": {func(r *state.RegisterNode) { r.Address = own.Proof.Address }, "has not signed for the address"},
		"no signature":        {func(r *state.RegisterNode) { r.Address = nil }, "host h-2: it has not signed its address: bring its SWOP"},
		"no proof":            {func(r *state.RegisterNode) { r.Address, r.KeepProof = nil, false }, "host h-2: it has not signed its address"},
		"no chain of ours":    {func(r *state.RegisterNode) { r.Chain = [][]byte{{1}} }, "signed by no SVID that this host accepts now"},
	} {
		r := state.RegisterNode{Node: node, TokenHash: node.TokenHashes[0], AtMS: 8, Signature: node.Proof.Signature, Chain: node.Proof.Chain, Address: node.Proof.Address, KeepProof: true}
		tt.change(&r)
		must(s.core.Propose(t.Context(), r))(t)
		if sites, err := h.World(t.Context(), two, 1); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v, want %s", name, sites, err, tt.want)
		}
	}
	lied := own // all members are on one host, by an SN that has made up where
	lied.Host = "10.6.6.6"
	must(s.core.Propose(ctx, state.RegisterNode{Node: lied, TokenHash: own.TokenHashes[0], AtMS: 9, Signature: own.Proof.Signature, Chain: own.Proof.Chain, Address: own.Proof.Address, KeepProof: true}))(t)
	if sites := must(h.World(ctx, one, 1))(t); len(sites) != 1 || sites[0].Address != "10.0.0.1" {
		t.Errorf("a host believes an SN of where it is itself: %+v", sites)
	}
	if sites, err := other.World(ctx, one, 1); err == nil || !strings.Contains(err.Error(), `has not signed for the address "10.6.6.6"`) {
		t.Errorf("one host, another asks: %+v, %v", sites, err)
	}
}
