package onwire_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

func seen() task.Hosted {
	return task.Hosted{
		Request: task.Request{
			ID: "18446744073709551615", Task: "pull", Digest: strings.Repeat("d", 64), Taskrunner: "tr", Hosts: []string{"h-1", "h-2"},
			Groups:  []task.Group{{Name: "servers", Peers: 1}, {Name: "all", Peers: 2, Least: 1, Needs: ledger.Needs{MilliCPU: 500, Memory: 1 << 40, GPUs: 2, Disk: 3}, Ports: []uint32{9000}, FirstPorts: []uint32{80, 29400}}},
			InOrder: true, Retries: 3, TimeoutMS: 4000, ExpiresMS: 5000, By: "spiffe://a.example/swarm/swci", Joins: "6",
			JobTerms: task.JobTerms{Done: task.DoneMain, ReadyMS: 6000, LivesMS: 7000, Together: true, GraceMS: 8000, Stops: true},
		},
		Epoch: 6, Phase: task.Running,
		Members: []task.HostedMember{{Index: 1, Group: "all", Peers: 2, State: task.Started, Start: true, Stop: true}},
		Order: &ledger.Order{
			By: "spiffe://a.example/swarm/swci", Method: "AssignTask", Request: []byte(`{"id":"7"}`), AskedMS: 7, Nonce: []byte{8},
			Witnessed: ledger.Witness{Length: 9, Hash: strings.Repeat("a", 64)}, Signature: []byte{10}, Chain: [][]byte{{11}, {12}},
		},
		Approvals: []task.Approval{
			{Order: &ledger.Order{Method: "ApproveTask", Request: []byte(`{"assignment":"7"}`)}}, {Refuse: true, Order: &ledger.Order{Method: "RefuseTask", Request: []byte(`{}`)}},
		},
	}
}

// sent is what comes out of the network.
func sent(t *testing.T, all []*swarmv1.HostedAssignment) []*swarmv1.HostedAssignment {
	t.Helper()
	raw, err := proto.Marshal(&swarmv1.HostedAssignments{Assignments: all})
	if err != nil {
		t.Fatal(err)
	}
	out := &swarmv1.HostedAssignments{}
	if err := proto.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
	return out.GetAssignments()
}

// TestHostsSeeAll: every field of what a host sees reaches it, and nothing of the order is altered.
func TestHostsSeeAll(t *testing.T) {
	want := []task.Hosted{seen(), {Request: seen().Request, Phase: task.Waiting}}
	wire := onwire.Hosted(want)
	rpctest.Full(t, wire[0])
	rpctest.Full(t, wire[0].GetMembers()[0])
	for _, name := range []string{"done", "ready_ms", "lives_ms", "together", "grace_ms"} {
		if a := wire[0].GetAssignment().ProtoReflect(); !a.Has(a.Descriptor().Fields().ByName(protoreflect.Name(name))) {
			t.Errorf("%s is not shown", name)
		}
	}
	rpctest.Full(t, wire[0].GetAssignment().GetGroups()[1])
	rpctest.Full(t, wire[0].GetAssignment().GetGroups()[1].GetNeeds())
	rpctest.Full(t, wire[0].GetOrder())
	got, err := onwire.FromHosted(sent(t, wire))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
}

// TestWhatAnSNMayNotShow is refused.
func TestWhatAnSNMayNotShow(t *testing.T) {
	for name, change := range map[string]func(x *swarmv1.HostedAssignment){
		"no assignment":        func(x *swarmv1.HostedAssignment) { x.Assignment = nil },
		"a phase that is none": func(x *swarmv1.HostedAssignment) { x.Assignment.Phase = "over" },
		"an end of its own":    func(x *swarmv1.HostedAssignment) { x.Assignment.Done = "x" },
		"a life without end":   func(x *swarmv1.HostedAssignment) { x.Assignment.LivesMs = math.MaxInt64 },
		"too many hosts":       func(x *swarmv1.HostedAssignment) { x.Assignment.Hosts = make([]string, task.MaxMembers+1) },
		"a path as a host":     func(x *swarmv1.HostedAssignment) { x.Assignment.Hosts = []string{"../h"} },
		"no ID":                func(x *swarmv1.HostedAssignment) { x.Assignment.Id = "../7" },
		"a task of any text":   func(x *swarmv1.HostedAssignment) { x.Assignment.Task = "../../etc" },
		"no digest":            func(x *swarmv1.HostedAssignment) { x.Assignment.Digest = "" },
		"a group of its own":   func(x *swarmv1.HostedAssignment) { x.Members[0].Group = "x" },
		"a state of its own":   func(x *swarmv1.HostedAssignment) { x.Members[0].State = "x" },
		"a large index":        func(x *swarmv1.HostedAssignment) { x.Members[0].Index = math.MaxUint32 },
		"too many approvals":   func(x *swarmv1.HostedAssignment) { x.Approvals = make([]*swarmv1.HostedApproval, task.MaxApprovals+1) },
		"a large approval":     func(x *swarmv1.HostedAssignment) { x.Approvals[0].Order.Request = make([]byte, 1<<20) },
		"no peers":             func(x *swarmv1.HostedAssignment) { x.Members[0].Peers = 0 },
		"too many members":     func(x *swarmv1.HostedAssignment) { x.Members = make([]*swarmv1.HostedMember, task.MaxMembers+1) },
		"a long request":       func(x *swarmv1.HostedAssignment) { x.Order.Request = make([]byte, state.MaxOrderRequest+1) },
		"long certificates":    func(x *swarmv1.HostedAssignment) { x.Order.Chain = [][]byte{make([]byte, state.MaxChainBytes+1)} },
		"many certificates":    func(x *swarmv1.HostedAssignment) { x.Order.Chain = make([][]byte, state.MaxChain+1) },
		"a long signature":     func(x *swarmv1.HostedAssignment) { x.Order.Signature = make([]byte, 1<<20) },
	} {
		x := sent(t, onwire.Hosted([]task.Hosted{seen()}))
		change(x[0])
		if got, err := onwire.FromHosted(x); err == nil {
			t.Errorf("%s: taken as %+v", name, got)
		}
	}
	x := sent(t, onwire.Hosted([]task.Hosted{seen()}))[0]
	x.Order.Request, x.Order.Chain = make([]byte, state.MaxOrderRequest), [][]byte{make([]byte, state.MaxChainBytes), {}, {}, {}}
	if _, err := onwire.FromHosted([]*swarmv1.HostedAssignment{x}); err != nil {
		t.Errorf("what the state takes is refused: %v", err)
	}
	if _, err := onwire.FromHosted(make([]*swarmv1.HostedAssignment, task.MaxLive+1)); err == nil {
		t.Error("more assignments are taken than can be live")
	}
}

// TestHostsSayAll: every field of what a host says reaches the SN, bounded.
func TestHostsSayAll(t *testing.T) {
	want := []task.MemberReport{
		{Assignment: "7", Epoch: 2, Group: "peers", Peers: 4, Report: task.Report{Member: 3, Node: "h", State: task.Exited, Code: -4, Text: "no space left", Cleaned: true, Signature: "c2ln", Asks: task.AskStop}},
		{Assignment: "8", Epoch: 1, Report: task.Report{Node: "h", State: task.Asked}},
		{Assignment: "9", Epoch: 1, Report: task.Report{Node: "h", State: task.Prepared, Address: task.Address{IP: "10.9.0.1", IPSignature: "c2ln"}}},
	}
	wire := onwire.Members(want)
	rpctest.Full(t, wire[0], "address", "address_signature") // which no member that has ended has
	got, err := onwire.FromMembers("h", wire)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	long := onwire.Members([]task.MemberReport{{Assignment: "7", Report: task.Report{State: task.Exited, Text: strings.Repeat("ä\xff", task.MaxText)}}})
	if _, err := onwire.FromMembers("h", long); err != nil || !strings.HasPrefix(long[0].GetText(), "ää") {
		t.Errorf("long words travel as %d bytes: %v", len(long[0].GetText()), err)
	}
	if many := onwire.Members(make([]task.MemberReport, 2*task.MaxHosted)); len(many) != task.MaxHosted {
		t.Errorf("%d members are reported", len(many))
	}
	for name, bad := range map[string]*swarmv1.MemberReport{
		"no assignment":        {State: "asked"},
		"no state":             {Assignment: "7"},
		"placed by itself":     {Assignment: "7", State: "placed"},
		"lost by itself":       {Assignment: "7", State: "lost"},
		"a member of no epoch": {Assignment: "7", State: "asked", Index: task.MaxMembers},
		"a group for nobody":   {Assignment: "7", State: "asked", Group: "peers"},
		"peers of no group":    {Assignment: "7", State: "asked", Peers: 1},
		"too many peers":       {Assignment: "7", State: "asked", Group: "peers", Peers: task.MaxMembers + 1},
		"a group without end":  {Assignment: "7", State: "asked", Group: strings.Repeat("x", 1<<10), Peers: 1},
		"asks for more":        {Assignment: "7", State: "ready", Asks: "more", Signature: []byte{9}},
		"asks, unsigned":       {Assignment: "7", State: "ready", Asks: task.AskStop},
		"an address of no IP":  {Assignment: "7", State: "prepared", Address: "node-0", AddressSignature: []byte{9}},
		"an address twice":     {Assignment: "7", State: "prepared", Address: "10.9.0.01", AddressSignature: []byte{9}},
		"a link-local address": {Assignment: "7", State: "prepared", Address: "169.254.169.254", AddressSignature: []byte{9}},
		"a loopback address":   {Assignment: "7", State: "prepared", Address: "127.0.0.1", AddressSignature: []byte{9}},
		"an unsigned address":  {Assignment: "7", State: "prepared", Address: "10.9.0.1"},
		"signed for nothing":   {Assignment: "7", State: "prepared", AddressSignature: []byte{9}},
		"an early address":     {Assignment: "7", State: "asked", Address: "10.9.0.1", AddressSignature: []byte{9}},
		"a long signature":     {Assignment: "7", State: "prepared", Address: "10.9.0.1", AddressSignature: make([]byte, 65)},
		"long words":           {Assignment: "7", State: "asked", Text: strings.Repeat("x", task.MaxText+1)},
	} {
		if got, err := onwire.FromMembers("h", []*swarmv1.MemberReport{bad}); err == nil {
			t.Errorf("%s: taken as %+v", name, got)
		}
	}
}

// TestSignedReportsDiffer: no other report of members, of no other node or swarm, has the bytes that are signed.
func TestSignedReportsDiffer(t *testing.T) {
	one := func() []*swarmv1.MemberReport {
		return []*swarmv1.MemberReport{{Assignment: "7", Epoch: 1, Index: 2, State: "asked", Code: 3, Text: "x", Signature: []byte{9}, Group: "peers", Peers: 2, Asks: task.AskStop, Address: "10.9.0.1", AddressSignature: []byte{8}}}
	}
	seen := map[string]string{string(onwire.MembersMessage("swarm", "h", one())): "the report"}
	add := func(name string, message []byte) {
		if was := seen[string(message)]; was != "" {
			t.Errorf("%s has the bytes of %s", name, was)
		}
		seen[string(message)] = name
	}
	add("another swarm", onwire.MembersMessage("swarn", "h", one()))
	add("another node", onwire.MembersMessage("swarm", "i", one()))
	add("a moved border", onwire.MembersMessage("swarmh", "", one()))
	add("none", onwire.MembersMessage("swarm", "h", nil))
	add("twice", onwire.MembersMessage("swarm", "h", append(one(), one()...)))
	fields := one()[0].ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		changed := one()
		m := changed[0].ProtoReflect()
		m.Clear(fields.Get(i))
		if !one()[0].ProtoReflect().Has(fields.Get(i)) {
			changed[0].Cleaned = true // the one that is not set
		}
		add("another "+string(fields.Get(i).Name()), onwire.MembersMessage("swarm", "h", changed))
	}
}

// FuzzHosted: what an SN shows is refused or within bounds, and what is taken reads the same again.
func FuzzHosted(f *testing.F) {
	raw, err := proto.Marshal(&swarmv1.HostedAssignments{Assignments: onwire.Hosted([]task.Hosted{seen()})})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &swarmv1.HostedAssignments{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		got, err := onwire.FromHosted(m.GetAssignments())
		if err != nil {
			return
		}
		for i := range got {
			if got[i].Check() != nil || got[i].Digest == "" || len(got[i].Members) > task.MaxMembers {
				t.Fatalf("taken: %+v", got[i])
			}
		}
		again, err := onwire.FromHosted(sent(t, onwire.Hosted(got)))
		if d := cmp.Diff(got, again, cmpopts.EquateEmpty()); err != nil || d != "" {
			t.Fatal(err, d)
		}
	})
}

// FuzzMembers: what a host says is refused or within bounds.
func FuzzMembers(f *testing.F) {
	f.Add("7", uint32(1), uint32(2), "exited", "x")
	f.Fuzz(func(t *testing.T, id string, epoch, index uint32, state, text string) {
		got, err := onwire.FromMembers("h", []*swarmv1.MemberReport{{Assignment: id, Epoch: epoch, Index: index, State: state, Text: text}})
		if err != nil {
			return
		}
		if r := got[0]; !task.ValidID(r.Assignment) || r.Member >= task.MaxMembers || !r.State.Known() || len(r.Text) > task.MaxText {
			t.Fatalf("taken: %+v", r)
		}
	})
}
