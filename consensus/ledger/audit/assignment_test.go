package audit_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/identity"
)

// ran is a ledger with a finalised task, and two hosts that can carry it out, each as two peers.
type ran struct {
	*builder

	op     *operator
	hosts  []*node
	task   string
	digest string
}

func newRan(t *testing.T, ca *authority, op *operator, hosts []*node, registered []ledger.Registration) *ran {
	t.Helper()
	b := &ran{builder: &builder{t: t}, op: op, hosts: hosts, digest: strings.Repeat("d", 64)}
	b.add(ledger.Swarm{SwarmID: swarmID})
	b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
	for _, r := range registered {
		b.add(r)
	}
	b.make("train", "RUN_SWARM")
	return b
}

// make adds a finalised task, which is assigned from there on.
func (b *ran) make(name, kind string) {
	b.task = name
	b.add(ledger.Task{Task: name, Type: kind, By: b.op.id, Order: b.op.asks(b.builder, &swarmv1.CreateTaskRequest{Name: name, Type: kind})})
	b.add(ledger.FinalTask{Task: name, Digest: b.digest, Order: b.op.asks(b.builder, &swarmv1.FinaliseTaskRequest{Name: name})})
}

// assign adds an assignment as it was asked for, changed by an SN that lies.
func (b *ran) assign(r *swarmv1.AssignTaskRequest, lie func(*ledger.Assigned)) {
	r.Task, r.Digest, r.Taskrunner = b.task, b.digest, "tr"
	if r.Groups == nil {
		r.Groups = []*swarmv1.TaskGroup{{Name: "peers", Peers: 2, Least: 2}}
	}
	a := ledger.Assigned{
		Assignment: r.GetId(), Task: b.task, Digest: b.digest, Taskrunner: "tr", Hosts: r.GetHosts(), By: b.op.id, Joins: r.GetJoins(),
		Order: b.op.asks(b.builder, r),
	}
	for _, g := range r.GetGroups() {
		a.Groups = append(a.Groups, ledger.Group{Name: g.GetName(), Peers: g.GetPeers(), Least: g.GetLeast()})
	}
	if lie != nil {
		lie(&a)
	}
	b.add(a)
}

// end adds a verdict, with the first host as a member that counts for two.
func (b *ran) end(id, verdict string, o *ledger.Order, lie func(*ledger.EndedAssignment)) {
	e := ledger.EndedAssignment{Assignment: id, Task: b.task, Digest: b.digest, Verdict: verdict, Order: o, Members: []ledger.Member{
		{Node: b.hosts[0].name, PeerID: b.hosts[0].id, State: "exited", Group: "peers", Peers: 2},
	}}
	if lie != nil {
		lie(&e)
	}
	b.add(e)
}

// signs has a host sign what is said of its member.
func (n *node) signs(t *testing.T, e *ledger.EndedAssignment, i int) {
	t.Helper()
	m := e.Members[i]
	n.signsAs(t, e, i, m.Group, m.Peers)
}

// signsAs has it sign a group and peers of its own; those of before signed none.
func (n *node) signsAs(t *testing.T, e *ledger.EndedAssignment, i int, group string, peers uint32) {
	t.Helper()
	m := &e.Members[i]
	signature, err := n.key.Sign(identity.MemberMessage(identity.MemberState{
		SwarmID: swarmID, Node: m.Node, Assignment: e.Assignment, Epoch: e.Epoch, Member: uint32(i), State: m.State, Code: m.Code, Group: group, Peers: peers, Asks: m.Asks,
	}))
	if err != nil {
		t.Fatal(err)
	}
	m.Signature = base64.StdEncoding.EncodeToString(signature)
}

// bare leaves out of a record what records of before do not say.
func bare(a *ledger.Assigned) { a.Groups, a.Joins = nil, "" }

func ungrouped(e *ledger.EndedAssignment) { e.Members[0].Group, e.Members[0].Peers = "", 0 }

// TestHostsSignWhatBecameOfTheirMembers: an SN that says something else is found out, and what no host has signed is counted.
func TestHostsSignWhatBecameOfTheirMembers(t *testing.T) {
	ca := newAuthority(t)
	op := newOperator(t, ca)
	hosts := []*node{newNode(t, "swop-0"), newNode(t, "swop-1")}
	registered := []ledger.Registration{hosts[0].register(t, ca), hosts[1].register(t, ca)}
	for name, tt := range map[string]struct {
		want     string // empty: it is good
		unsigned int
		lie      func(e *ledger.EndedAssignment)
	}{
		"as signed":     {"", 0, func(*ledger.EndedAssignment) {}},
		"not signed":    {"", 1, func(e *ledger.EndedAssignment) { e.Members[0].Signature = "" }},
		"lost":          {"", 0, func(e *ledger.EndedAssignment) { e.Members[0].Signature, e.Members[0].State = "", "lost" }},
		"another code":  {`did not sign that its part in assignment 7 is "exited" with code 0`, 0, func(e *ledger.EndedAssignment) { e.Members[0].Code = 0 }},
		"another state": {"did not sign", 0, func(e *ledger.EndedAssignment) { e.Members[0].State = "refused" }},
		"another epoch": {"did not sign", 0, func(e *ledger.EndedAssignment) { e.Epoch++ }},
		"another's":     {"did not sign", 0, func(e *ledger.EndedAssignment) { hosts[1].signs(t, e, 0) }},
		"another's part": {"did not sign", 1, func(e *ledger.EndedAssignment) {
			e.Members = append(e.Members[:1:1], e.Members...)
			e.Members[0].Signature = ""
		}},
		"another group":      {"did not sign", 0, func(e *ledger.EndedAssignment) { e.Members[0].Group = "others" }},
		"more peers":         {`in group "peers" for 3 peers`, 0, func(e *ledger.EndedAssignment) { e.Members[0].Peers++ }},
		"no group":           {"did not sign", 0, func(e *ledger.EndedAssignment) { e.Members[0].Group, e.Members[0].Peers = "", 0 }},
		"no signature":       {"did not sign", 0, func(e *ledger.EndedAssignment) { e.Members[0].Signature = "x" }},
		"lost, as it is not": {"did not sign", 0, func(e *ledger.EndedAssignment) { e.Members[0].State = "lost" }},
	} {
		b := newRan(t, ca, op, hosts, registered)
		b.assign(&swarmv1.AssignTaskRequest{Id: "7"}, nil)
		b.end("7", "failed", nil, func(e *ledger.EndedAssignment) {
			e.Epoch, e.Members[0].Code = 1, 3
			hosts[0].signs(t, e, 0)
			tt.lie(e)
		})
		r := verify(t, b.bytes, optionsOf(ca))
		if found := fmt.Sprint(r.Problems); r.Good() != (tt.want == "") || !strings.Contains(found, tt.want) || r.UnsignedMembers != tt.unsigned {
			t.Errorf("%s: found %s, want %q; %d unsigned", name, found, tt.want, r.UnsignedMembers)
		}
	}
}

// TestHostsOfBeforeSignNoGroup: their signatures prove what they did, and it is counted of how many the SNs alone say the group.
func TestHostsOfBeforeSignNoGroup(t *testing.T) {
	ca := newAuthority(t)
	hosts := []*node{newNode(t, "swop-0"), newNode(t, "swop-1")}
	b := newRan(t, ca, newOperator(t, ca), hosts, []ledger.Registration{hosts[0].register(t, ca), hosts[1].register(t, ca)})
	b.assign(&swarmv1.AssignTaskRequest{Id: "7"}, nil)
	b.end("7", "succeeded", nil, func(e *ledger.EndedAssignment) {
		e.Members = append(e.Members, ledger.Member{Node: "swop-1", PeerID: hosts[1].id, State: "exited", Group: "peers", Peers: 1})
		hosts[0].signsAs(t, e, 0, "", 0)
		hosts[1].signs(t, e, 1)
	})
	if r := verify(t, b.bytes, optionsOf(ca)); !r.Good() || r.UnsignedMembers != 0 || r.UngroupedMembers != 1 {
		t.Errorf("found %v; %d unsigned, %d without a group", r.Problems, r.UnsignedMembers, r.UngroupedMembers)
	}
}

// TestAnIDThatIsUsedAgain is told, and what hosts have signed under it proves nothing of the later assignment.
func TestAnIDThatIsUsedAgain(t *testing.T) {
	ca := newAuthority(t)
	hosts := []*node{newNode(t, "swop-0"), newNode(t, "swop-1")}
	b := newRan(t, ca, newOperator(t, ca), hosts, []ledger.Registration{hosts[0].register(t, ca), hosts[1].register(t, ca)})
	var signed string
	for _, id := range []string{"7", "8", "7"} {
		b.assign(&swarmv1.AssignTaskRequest{Id: id}, nil)
		b.end(id, "succeeded", nil, func(e *ledger.EndedAssignment) {
			if hosts[0].signs(t, e, 0); signed == "" {
				signed = e.Members[0].Signature
			}
			if id == "7" {
				e.Members[0].Signature = signed // an SN has kept it
			}
		})
	}
	r := verify(t, b.bytes, optionsOf(ca))
	if want := []audit.Reused{{Record: 11, Before: 7, Assignment: "7"}}; !r.Good() || !slices.Equal(r.Reused, want) || r.UnsignedMembers != 1 {
		t.Errorf("found %v, %+v, %d unsigned", r.Problems, r.Reused, r.UnsignedMembers)
	}
}

// TestIDsThatAreUsedAgainAreCounted: those that are not named too.
func TestIDsThatAreUsedAgainAreCounted(t *testing.T) {
	ca := newAuthority(t)
	hosts := []*node{newNode(t, "swop-0")}
	b := newRan(t, ca, newOperator(t, ca), hosts, []ledger.Registration{hosts[0].register(t, ca)})
	for range 24 {
		b.assign(&swarmv1.AssignTaskRequest{Id: "7"}, nil)
		b.end("7", "succeeded", nil, nil)
	}
	if r := verify(t, b.bytes, optionsOf(ca)); !r.Good() || len(r.Reused) != 20 || r.MoreReused != 3 {
		t.Errorf("found %v; %d are named, %d more", r.Problems, len(r.Reused), r.MoreReused)
	}
}

// TestWhoRanWhatOnWhichHosts: an SN that lies about assignments and their members is found out.
func TestWhoRanWhatOnWhichHosts(t *testing.T) {
	ca := newAuthority(t)
	op := newOperator(t, ca)
	hosts := []*node{newNode(t, "swop-0"), newNode(t, "swop-1"), newNode(t, "swop-2")} // the last one never registers
	registered := []ledger.Registration{hosts[0].register(t, ca), hosts[1].register(t, ca)}
	id := func(id string) *swarmv1.AssignTaskRequest { return &swarmv1.AssignTaskRequest{Id: id} }
	both := func(e *ledger.EndedAssignment) {
		e.Members = append(e.Members, e.Members[0])
		e.Members[1].Node, e.Members[1].PeerID = hosts[1].name, hosts[1].id
	}
	second := func(e *ledger.EndedAssignment) {
		e.Members[0].Node, e.Members[0].PeerID = hosts[1].name, hosts[1].id
		hosts[1].signs(t, e, 0)
	}
	joins := func(id, main string) *swarmv1.AssignTaskRequest {
		return &swarmv1.AssignTaskRequest{Id: id, Joins: main, Hosts: []string{"swop-1"}}
	}
	for name, tt := range map[string]struct {
		want string // empty: it is good
		add  func(b *ran)
	}{
		"succeeded": {"", func(b *ran) { b.assign(id("7"), nil); b.end("7", "succeeded", nil, nil) }},
		"of before": {"", func(b *ran) {
			b.assign(id("7"), bare)
			b.end("7", "succeeded", nil, ungrouped)
			b.assign(id("8"), nil)
			b.end("8", "succeeded", nil, ungrouped)
			b.assign(id("9"), nil)
			b.end("9", "succeeded", nil, nil)
		}},
		"whom it needs is left out": {"groups: they are missing, and since record 7", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "succeeded", nil, nil)
			b.assign(id("8"), bare)
		}},
		"half of it is left out": {"groups: they are missing, and what comes with them is there", func(b *ran) {
			b.assign(id("7"), func(a *ledger.Assigned) { a.Groups, a.TimeoutMS = nil, 5 })
		}},
		"groups of members are left out": {"members: their groups are missing", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "succeeded", nil, nil)
			b.assign(id("8"), nil)
			b.end("8", "succeeded", nil, ungrouped)
		}},
		"made before groups were kept, and ended after": {"", func(b *ran) {
			b.assign(id("7"), func(a *ledger.Assigned) { a.Groups = nil })
			b.assign(joins("8", "7"), nil)
			b.end("8", "failed", nil, func(e *ledger.EndedAssignment) { e.Members[0].Node, e.Members[0].PeerID = "swop-1", hosts[1].id })
			b.end("7", "succeeded", nil, ungrouped)
		}},
		"a success that too few had a part in": {"it succeeded with 1 peers of group peers, and the operator demanded 2", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "succeeded", nil, func(e *ledger.EndedAssignment) { e.Members[0].Peers = 1 })
		}},
		"a success of those who failed": {"it succeeded, and no host has carried it out", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "succeeded", nil, func(e *ledger.EndedAssignment) { e.Members[0].Code = 3 })
		}},
		"a success of nobody": {"it succeeded, and no host has carried it out", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "succeeded", nil, func(e *ledger.EndedAssignment) { e.Members = nil })
		}},
		"a group that nobody asked for": {"members[0].group: the operator asked for no group others", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "failed", nil, func(e *ledger.EndedAssignment) { e.Members[0].Group = "others" })
		}},
		"a host that never registered": {"members[0].peer_id: no host swop-2", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "failed", nil, func(e *ledger.EndedAssignment) { e.Members[0].Node, e.Members[0].PeerID = hosts[2].name, hosts[2].id })
		}},
		"the key of another host": {"members[0].peer_id: no host swop-0", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "failed", nil, func(e *ledger.EndedAssignment) { e.Members[0].PeerID = hosts[1].id })
		}},
		"a host that is gone by now": {"", func(b *ran) {
			b.assign(id("7"), nil)
			b.add(ledger.Forget{Node: "swop-0", PeerID: hosts[0].id, Order: op.asks(b.builder, &swarmv1.ForgetNodeRequest{Name: "swop-0"})})
			b.end("7", "failed", nil, nil)
		}},
		"another host than was named": {"members[0].node: the operator asked for hosts [swop-1], and not for swop-0", func(b *ran) {
			b.assign(&swarmv1.AssignTaskRequest{Id: "7", Hosts: []string{"swop-1"}}, nil)
			b.end("7", "failed", nil, nil)
		}},
		"a taskrunner twice": {"taskrunner: taskrunner tr has an assignment without a verdict", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(id("8"), nil)
		}},
		"joined": {"", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("8", "7"), nil)
			b.end("7", "succeeded", nil, nil)
			b.end("8", "failed", nil, func(e *ledger.EndedAssignment) { e.Members = nil })
			b.assign(id("9"), nil)
		}},
		"the joined one is not over": {"taskrunner: taskrunner tr has an assignment", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("8", "7"), nil)
			b.end("7", "succeeded", nil, nil)
			b.assign(id("9"), nil)
		}},
		"joined to another": {`joins: the operator ` + op.id + ` asked for one that joins 7`, func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("8", "7"), func(a *ledger.Assigned) { a.Joins = "6" })
		}},
		"what it joins is made up": {"asked for one that joins ", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(&swarmv1.AssignTaskRequest{Id: "8", Hosts: []string{"swop-1"}}, func(a *ledger.Assigned) { a.Joins = "7" })
		}},
		"what it joins is left out": {"joins: it is missing", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("8", "7"), nil)
			b.assign(joins("9", "7"), func(a *ledger.Assigned) { a.Joins = "" })
		}},
		"joined to what is over": {"joins: assignment 7 was not made, or has its verdict", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "succeeded", nil, nil)
			b.assign(joins("8", "7"), nil)
		}},
		"joined to what joins": {"joins: assignment 8 is of another task", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("8", "7"), nil)
			b.assign(joins("9", "8"), nil)
		}},
		"a reset that ends both": {"", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("8", "7"), nil)
			o := op.asks(b.builder, &swarmv1.ResetTaskrunnerRequest{Name: "tr", Reason: "enough\x00"})
			b.end("7", "cancelled", o, func(e *ledger.EndedAssignment) { e.Reason = "enough " })
			b.end("8", "cancelled", o, func(e *ledger.EndedAssignment) {
				e.Members[0].Node, e.Members[0].PeerID, e.Reason = "swop-1", hosts[1].id, "enough "
			})
		}},
		"a cancellation that ends both": {"", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("6", "7"), nil)
			o := op.asks(b.builder, &swarmv1.CancelAssignmentRequest{Id: "7"})
			b.end("6", "cancelled", o, func(e *ledger.EndedAssignment) { e.Members = nil })
			b.end("7", "cancelled", o, nil)
		}},
		"a cancellation of what joins ends both": {"order: the operator cancelled assignment 8", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("8", "7"), nil)
			o := op.asks(b.builder, &swarmv1.CancelAssignmentRequest{Id: "8"})
			b.end("7", "cancelled", o, nil)
		}},
		"an order is used again later": {"order.nonce: it was used in record", func(b *ran) {
			b.assign(id("7"), nil)
			o := op.asks(b.builder, &swarmv1.ResetTaskrunnerRequest{Name: "tr"})
			b.end("7", "cancelled", o, nil)
			b.assign(id("8"), nil)
			b.end("8", "cancelled", o, nil)
		}},
		"another order with the same nonce": {"order.nonce: it was used in record", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("8", "7"), nil)
			o := op.asks(b.builder, &swarmv1.ResetTaskrunnerRequest{Name: "tr"})
			b.end("7", "cancelled", o, nil)
			other := *o
			other.Signature = append(slices.Clone(o.Signature), 1)
			b.end("8", "cancelled", &other, func(e *ledger.EndedAssignment) { e.Members = nil })
		}},
		"a reason that nobody gave": {"reason: the operator gave enough", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "cancelled", op.asks(b.builder, &swarmv1.ResetTaskrunnerRequest{Name: "tr", Reason: "enough"}), func(e *ledger.EndedAssignment) { e.Reason = "a host failed" })
		}},
		"a part of the reason": {"reason: the operator gave enough", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "cancelled", op.asks(b.builder, &swarmv1.CancelAssignmentRequest{Id: "7", Reason: "enough, it is wrong"}), func(e *ledger.EndedAssignment) { e.Reason = "enough" })
		}},
		"a reason that was too long": {"", func(b *ran) {
			b.assign(id("7"), nil)
			given := strings.Repeat("<", 300)
			b.end("7", "cancelled", op.asks(b.builder, &swarmv1.CancelAssignmentRequest{Id: "7", Reason: given}), func(e *ledger.EndedAssignment) { e.Reason = given[:256/6] })
		}},
		"a success of before that too few hosts had a part in": {"verdict: it succeeded with 1 hosts, and the operator demanded 2 peers: that takes 2 hosts", func(b *ran) {
			b.make("pull", "PULL_IMAGE")
			b.assign(id("7"), bare)
			b.end("7", "succeeded", nil, ungrouped)
		}},
		"a success of before that enough hosts had a part in": {"", func(b *ran) {
			b.make("pull", "PULL_IMAGE")
			b.assign(id("7"), bare)
			b.end("7", "succeeded", nil, func(e *ledger.EndedAssignment) { ungrouped(e); both(e) })
		}},
		"a success of before of one group of two": {"verdict: it succeeded with 1 hosts, and the operator demanded 3 peers: that takes 2 hosts", func(b *ran) {
			b.assign(&swarmv1.AssignTaskRequest{Id: "7", Groups: []*swarmv1.TaskGroup{{Name: "one", Peers: 2, Least: 2}, {Name: "other", Peers: 1, Least: 1}, {Name: "more", Peers: 1}}}, nil)
			b.end("7", "succeeded", nil, ungrouped)
		}},
		"some members say their group": {"members: some say in which group they were", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "succeeded", nil, func(e *ledger.EndedAssignment) { both(e); ungrouped(e) })
		}},
		"a failure of those who succeeded": {"verdict: it failed, and of each group hosts have signed", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "failed", nil, func(e *ledger.EndedAssignment) { hosts[0].signs(t, e, 0) })
		}},
		"a failure of before of those who succeeded": {"verdict: it failed, and of each group hosts have signed", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "failed", nil, func(e *ledger.EndedAssignment) {
				ungrouped(e)
				both(e)
				hosts[0].signs(t, e, 0)
				hosts[1].signs(t, e, 1)
			})
		}},
		"a failure of too few who succeeded": {"", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "failed", nil, func(e *ledger.EndedAssignment) { e.Members[0].Peers = 1; hosts[0].signs(t, e, 0) })
		}},
		"more placements than retries": {"epoch: it was placed 3 times, and the operator asked for 1 retries", func(b *ran) {
			b.assign(&swarmv1.AssignTaskRequest{Id: "7", Retries: 1}, func(a *ledger.Assigned) { a.Retries = 1 })
			b.end("7", "failed", nil, func(e *ledger.EndedAssignment) { e.Epoch = 3 })
		}},
		"as many placements as retries": {"", func(b *ran) {
			b.assign(&swarmv1.AssignTaskRequest{Id: "7", Retries: 1}, bare)
			b.end("7", "failed", nil, func(e *ledger.EndedAssignment) { e.Epoch = 2 })
		}},
		"a state that is none": {"members[0].state: good is none", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "failed", nil, func(e *ledger.EndedAssignment) { e.Members[0].State = "good" })
		}},
		"a host at two indexes": {"members[1].node: host swop-0 is members[0] too", func(b *ran) {
			b.assign(id("7"), nil)
			b.end("7", "failed", nil, func(e *ledger.EndedAssignment) { e.Members = append(e.Members, e.Members[0]) })
		}},
		"a failure beside one that failed": {"", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("8", "7"), nil)
			b.end("7", "failed", nil, nil)
			b.end("8", "failed", nil, second)
		}},
		"a failure beside one that succeeded": {"verdict: it failed, and of each group hosts have signed", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("8", "7"), nil)
			b.end("7", "succeeded", nil, nil)
			b.end("8", "failed", nil, second)
		}},
		"a failure beside one that goes on": {"verdict: it failed, and of each group hosts have signed", func(b *ran) {
			b.assign(id("7"), nil)
			b.assign(joins("8", "7"), nil)
			b.end("8", "failed", nil, second)
		}},
	} {
		b := newRan(t, ca, op, hosts, registered)
		tt.add(b)
		r := verify(t, b.bytes, optionsOf(ca))
		found := ""
		for _, p := range r.Problems {
			found += p.Field + ": " + strings.ReplaceAll(p.What, `"`, "") + "\n"
		}
		if tt.want == "" && found != "" || !strings.Contains(found, tt.want) {
			t.Errorf("%s: found %q, want %q", name, found, tt.want)
		}
	}
}
