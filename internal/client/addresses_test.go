package client_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
	"github.com/swarmd/swarmd/internal/client"
)

// hostAt is a host that says and signs where it is reached, by a node key.
func (s *swarm) hostAt(name, address, sn string) (client.Host, client.Registration) {
	s.t.Helper()
	reg := registration(s.t, name)
	reg.Node.Role, reg.Node.Host, reg.Node.Offer = "swop", address, &task.Offer{Taskrunner: task.DefaultTaskrunner, Peers: 2}
	h := client.Host{Client: s.client("/swarm/swop", nil, sn)}
	if err := h.Register(s.t.Context(), reg); err != nil {
		s.t.Fatal(err)
	}
	return h, reg
}

// jobOn assigns a job, and places a member on each of these hosts.
func (s *swarm) jobOn(sn string) func(hosts ...string) (id string) {
	s.t.Helper()
	ctx, op := s.t.Context(), client.Tasks{By: client.Operator{Client: s.client("/swarm/swci", nil, sn)}}
	must(op.CreateTask(ctx, &swarmv1.CreateTaskRequest{Name: "x.1", Type: task.RunJob, Author: "me", Prereq: task.Root}))(s.t)
	must(op.EditTask(ctx, "x.1", 1, "name: x"))(s.t)
	final := must(op.FinaliseTask(ctx, "x.1", must(op.GetTask(ctx, "x.1"))(s.t).GetDigest()))(s.t)
	return func(hosts ...string) (id string) {
		s.t.Helper()
		id = must(op.AssignTask(ctx, &swarmv1.AssignTaskRequest{
			Task: "x.1", Digest: final.GetDigest(), Hosts: hosts, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(), Groups: []*swarmv1.TaskGroup{{Name: "peers", Peers: uint32(len(hosts)), Least: 1}},
		}))(s.t).GetId()
		var members []task.Placement
		for _, h := range hosts {
			members = append(members, task.Placement{Node: h, Group: "peers", Peers: 1})
		}
		must(s.core.Propose(ctx, state.MoveAssignments{AtMS: 5, Moves: []task.Move{{Assignment: id, Do: task.Place, Members: members}}}))(s.t)
		return id
	}
}

// TestMembersAddressesAreSigned: a member's own address is what its host has signed by its node key, for this epoch of this assignment, and no SN's word, to
// itself neither. A host that has not told it yet has none.
func TestMembersAddressesAreSigned(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	h, _ := s.hostAt("h-1", "10.0.0.1", a.addr)
	itself, second := s.hostAt("h-2", "10.0.0.2", a.addr)
	_, other := s.hostAt("h-3", "10.0.0.3", a.addr)
	place := s.jobOn(a.addr)
	told := func(from client.Host, by client.Registration, said string, epoch uint32, ip string) (string, error) {
		t.Helper()
		id := place("h-1", "h-2")
		x := &swarmv1.MemberReport{Assignment: id, Epoch: epoch, Index: 1, Address: said}
		signature := base64.StdEncoding.EncodeToString(must(by.Key.Sign(onwire.MemberAddressMessage(swarmID, "h-2", x)))(t))
		must(s.core.Propose(t.Context(), state.MoveAssignments{AtMS: 6, Moves: []task.Move{{Assignment: id, Epoch: 1, Reports: []task.Report{
			{Member: 1, Node: "h-2", State: task.Prepared, Address: task.Address{IP: ip, IPSignature: signature}},
		}}}}))(t)
		sites, err := from.World(t.Context(), id, 1)
		if err != nil {
			return "", err
		}
		return sites[0].Own + sites[1].Own, nil
	}
	for _, from := range []client.Host{h, itself} {
		if got, err := told(from, second, "10.9.0.2", 1, "10.9.0.2"); err != nil || got != "10.9.0.2" {
			t.Errorf("told %q, %v", got, err)
		}
	}
	for name, tt := range map[string]struct {
		by    client.Registration
		said  string
		epoch uint32
	}{
		"another's key":   {other, "10.9.0.2", 1},
		"another address": {second, "10.9.0.3", 1},
		"another epoch":   {second, "10.9.0.2", 2},
	} {
		for _, from := range []client.Host{h, itself} {
			if got, err := told(from, tt.by, tt.said, tt.epoch, "10.9.0.2"); err == nil || !strings.Contains(err.Error(), "host h-2: member 1: its host has not signed for the address 10.9.0.2") {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
	node := *s.core.View().Nodes["h-2"]
	signed := s.core.View().Nodes["h-3"].Proof.Signature // by an SVID for another key
	must(s.core.Propose(t.Context(), state.RegisterNode{
		Node: node, TokenHash: node.TokenHashes[0], AtMS: 8, Signature: signed, Chain: node.Proof.Chain, Address: node.Proof.Address, KeepProof: true,
	}))(t)
	if got, err := told(h, second, "10.9.0.2", 1, "10.9.0.2"); err == nil || !strings.Contains(err.Error(), "has not signed for the node key") {
		t.Errorf("a key of no SVID: %q, %v", got, err)
	}
}

// TestAddressesAreSigned: where members are, their hosts have signed; an SN that says something else, or nothing of that, is not believed, and a host
// takes nobody's word for where it is itself.
func TestAddressesAreSigned(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	h, _ := s.hostAt("h-1", "10.0.0.1", a.addr)
	other, _ := s.hostAt("h-2", "host-2.lan", a.addr)
	ctx, placed := t.Context(), s.jobOn(a.addr)
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
