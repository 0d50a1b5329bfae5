package audit_test

import (
	"fmt"
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
)

// TestEndsOfJobs: each is held to its verdict, to what the operator asked for, and to what hosts have signed. A host may be several members.
func TestEndsOfJobs(t *testing.T) {
	ca := newAuthority(t)
	op := newOperator(t, ca)
	hosts := []*node{newNode(t, "swop-0"), newNode(t, "swop-1")}
	registered := []ledger.Registration{hosts[0].register(t, ca), hosts[1].register(t, ca)}
	for name, tt := range map[string]struct {
		want   string // empty: it is good
		end    string
		asked  func(r *swarmv1.AssignTaskRequest)
		change func(e *ledger.EndedAssignment) // before hosts sign
		lie    func(e *ledger.EndedAssignment) // afterwards
	}{
		"done":             {end: "entry_done"},
		"done by its main": {end: "entry_done", asked: func(r *swarmv1.AssignTaskRequest) { r.Done = "main" }, change: func(e *ledger.EndedAssignment) { e.Members[1].Code = 1 }},
		"done by any":      {end: "entry_done", asked: func(r *swarmv1.AssignTaskRequest) { r.Done = "any" }, change: func(e *ledger.EndedAssignment) { e.Members[0].Code = 1 }},
		"not done":         {"those that the operator demanded were not", "entry_done", nil, func(e *ledger.EndedAssignment) { e.Members[1].Code = 1 }, nil},
		"stopped by a host": {end: "stop_file", asked: func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, change: func(e *ledger.EndedAssignment) {
			e.Members[1].State, e.Members[1].Asks = "ready", "stop"
		}},
		"stopped as one ended": {end: "stop_file", asked: func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, change: func(e *ledger.EndedAssignment) { e.Members[0].Asks = "stop" }},
		"stopped, all have succeeded, and nobody has asked": {"no host has said so", "stop_file", func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, func(e *ledger.EndedAssignment) {
			e.Members[2].State = "exited"
		}, nil},
		"stopped by one that ended without a word": {end: "stop_file", asked: func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, change: func(e *ledger.EndedAssignment) {
			hosts[0].asked(t, e, 0)
		}},
		"stopped by one that was lost": {end: "stop_file", asked: func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, change: func(e *ledger.EndedAssignment) {
			hosts[1].asked(t, e, 2)
			e.Members[2].State = "lost"
		}},
		"stopped by one that has not asked": {"members[2] did not sign that it asks for the end", "stop_file", func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, func(e *ledger.EndedAssignment) {
			hosts[1].signs(t, e, 2)
			m := e.Members[2]
			e.Asked = &ledger.Asked{Member: 2, State: m.State, Signature: m.Signature}
		}, nil},
		"stopped by another's signature": {"members[0] did not sign that it asks for the end", "stop_file", func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, func(e *ledger.EndedAssignment) {
			hosts[1].asked(t, e, 2)
			e.Asked.Member = 0
		}, nil},
		"stopped by one of an epoch before": {"members[2] did not sign that it asks for the end", "stop_file", func(r *swarmv1.AssignTaskRequest) { r.Stops, r.Retries = true, 1 }, func(e *ledger.EndedAssignment) {
			hosts[1].asked(t, e, 2)
			e.Epoch = 2
		}, nil},
		"stopped by nobody's member": {"members[9] did not sign that it asks for the end", "stop_file", func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, func(e *ledger.EndedAssignment) {
			hosts[1].asked(t, e, 2)
			e.Asked.Member = 9
		}, nil},
		"asked to end, and done":                      {"it did not end so", "entry_done", func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, func(e *ledger.EndedAssignment) { hosts[1].asked(t, e, 2) }, nil},
		"all have succeeded, and it can't be stopped": {"the operator has not said that it may be", "stop_file", nil, func(e *ledger.EndedAssignment) { e.Members[2].State = "exited" }, nil},
		"failed by a word": {end: "member_failed", asked: func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, change: func(e *ledger.EndedAssignment) {
			e.Verdict, e.Members[1].State, e.Members[1].Asks = "failed", "ready", "stop_fail"
		}},
		"stopped by nobody": {"no host has said so", "stop_file", func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, nil, nil},
		"stopped though it can't be": {`members[1].asks: "stop" is asked of no job that can be stopped so`, "stop_file", nil, func(e *ledger.EndedAssignment) {
			e.Members[1].State, e.Members[1].Asks = "ready", "stop"
		}, nil},
		"stopped by another's word": {"did not sign", "stop_file", func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, func(e *ledger.EndedAssignment) {
			e.Members[1].State = "ready"
		}, func(e *ledger.EndedAssignment) { e.Members[1].Asks = "stop" }},
		"stopped by a word that nobody has signed": {"or nobody has signed it", "stop_file", func(r *swarmv1.AssignTaskRequest) { r.Stops = true }, func(e *ledger.EndedAssignment) {
			e.Members[1].State, e.Members[1].Asks = "ready", "stop"
		}, func(e *ledger.EndedAssignment) { e.Members[1].Signature = "" }},
		"lived":             {end: "ttl", asked: func(r *swarmv1.AssignTaskRequest) { r.LivesMs = 5 }},
		"lived for no time": {"the operator set no time", "ttl", nil, nil, nil},
		"done while it was to live": {
			"those that the operator demanded were not", "entry_done", func(r *swarmv1.AssignTaskRequest) { r.LivesMs = 5 }, nil, nil,
		},
		"no end":           {`"" is no end of a job that succeeded`, "", nil, nil, nil},
		"another end":      {`"host_lost" is no end of a job that succeeded`, "host_lost", nil, nil, nil},
		"an unknown end":   {`"tired" is no end of a job that failed`, "tired", nil, func(e *ledger.EndedAssignment) { e.Verdict = "failed" }, nil},
		"failed":           {end: "member_failed", change: func(e *ledger.EndedAssignment) { e.Verdict, e.Members[0].Code = "failed", 2 }},
		"failed, and done": {"hosts have signed that as many succeeded", "member_failed", nil, func(e *ledger.EndedAssignment) { e.Verdict = "failed" }, nil},
		"withdrawn, and done then": {end: "host_lost", asked: func(r *swarmv1.AssignTaskRequest) { r.Retries = 1 }, change: func(e *ledger.EndedAssignment) {
			e.Verdict, e.Withdrawn = "failed", true
		}},
		"withdrawn for good": {"placement 1 was withdrawn, of a job that failed and that was to be placed anew 0 times", "host_lost", nil, func(e *ledger.EndedAssignment) {
			e.Verdict, e.Withdrawn = "failed", true
		}, nil},
		"withdrawn with success": {"placement 1 was withdrawn, of a job that succeeded", "entry_done", func(r *swarmv1.AssignTaskRequest) { r.Retries = 1 }, func(e *ledger.EndedAssignment) {
			e.Withdrawn = true
		}, nil},
		"apart":         {"they are on 2 hosts, and the operator asked for one", "entry_done", func(r *swarmv1.AssignTaskRequest) { r.Together = true }, nil, nil},
		"for two peers": {"a member of a job is one peer", "entry_done", nil, func(e *ledger.EndedAssignment) { e.Members[0].Peers = 2 }, nil},
		"with another's key": {`host "swop-0" is members[0] too`, "entry_done", nil, func(e *ledger.EndedAssignment) {
			e.Members[2].Node = hosts[0].name
		}, nil},
		"with another code": {"did not sign", "entry_done", nil, nil, func(e *ledger.EndedAssignment) { e.Members[0].Code = 1 }},
		"on one host too often": {"a host has 64 of them at most", "entry_done", nil, func(e *ledger.EndedAssignment) {
			for range 64 {
				e.Members = append(e.Members, e.Members[0])
			}
		}, nil},
	} {
		b := newRan(t, ca, op, hosts, registered)
		b.make("job", "RUN_JOB")
		r := &swarmv1.AssignTaskRequest{Id: "7", Groups: []*swarmv1.TaskGroup{{Name: "main", Peers: 1, Least: 1}, {Name: "more", Peers: 2, Least: 1}}}
		if tt.asked != nil {
			tt.asked(r)
		}
		b.assign(r, func(a *ledger.Assigned) {
			a.Retries = r.GetRetries()
			a.JobTerms = ledger.JobTerms{Done: r.GetDone(), ReadyMS: r.GetReadyMs(), LivesMS: r.GetLivesMs(), Together: r.GetTogether(), Stops: r.GetStops()}
		})
		b.end("7", "succeeded", nil, func(e *ledger.EndedAssignment) {
			e.Epoch, e.End = 1, tt.end
			one := func(n *node, group, state string) ledger.Member {
				return ledger.Member{Node: n.name, PeerID: n.id, State: state, Group: group, Peers: 1}
			}
			e.Members = []ledger.Member{one(hosts[0], "main", "exited"), one(hosts[0], "more", "exited"), one(hosts[1], "more", "stopped")}
			if tt.change != nil {
				tt.change(e)
			}
			for i, m := range e.Members {
				if m.Node == hosts[0].name {
					hosts[0].signs(t, e, i)
				} else {
					hosts[1].signs(t, e, i)
				}
			}
			if tt.lie != nil {
				tt.lie(e)
			}
		})
		rep := verify(t, b.bytes, optionsOf(ca))
		if found := fmt.Sprint(rep.Problems); rep.Good() != (tt.want == "") || !strings.Contains(found, tt.want) {
			t.Errorf("%s: found %s, want %q", name, found, tt.want)
		}
	}
}

// asked has a host sign that it has asked for the end of a job while its member was ready.
func (n *node) asked(t *testing.T, e *ledger.EndedAssignment, i int) {
	t.Helper()
	was := e.Members[i]
	e.Members[i].State, e.Members[i].Code, e.Members[i].Asks = "ready", 0, "stop"
	n.signs(t, e, i)
	e.Asked = &ledger.Asked{Member: uint32(i), State: "ready", Signature: e.Members[i].Signature}
	e.Members[i] = was
}

// TestNoOtherTaskHasAnEnd: a host is one member of it, and it ends by no word.
func TestNoOtherTaskHasAnEnd(t *testing.T) {
	ca := newAuthority(t)
	op := newOperator(t, ca)
	hosts := []*node{newNode(t, "swop-0"), newNode(t, "swop-1")}
	registered := []ledger.Registration{hosts[0].register(t, ca), hosts[1].register(t, ca)}
	for want, lie := range map[string]func(e *ledger.EndedAssignment){
		`"entry_done" is one of a job, and task "train" is none`: func(e *ledger.EndedAssignment) { e.End = "entry_done" },
		`the end of jobs alone is asked for`:                     func(e *ledger.EndedAssignment) { e.Asked = &ledger.Asked{State: "ready", Signature: "c2ln"} },
		`host "swop-0" is members[0] too`:                        func(e *ledger.EndedAssignment) { e.Members = append(e.Members, e.Members[0]) },
	} {
		b := newRan(t, ca, op, hosts, registered)
		b.assign(&swarmv1.AssignTaskRequest{Id: "7"}, nil)
		b.end("7", "succeeded", nil, lie)
		if r := verify(t, b.bytes, optionsOf(ca)); r.Good() || !strings.Contains(fmt.Sprint(r.Problems), want) {
			t.Errorf("found %v, want %q", r.Problems, want)
		}
	}
}

// TestAWordUnderAnIDThatIsUsedAgain counts as unsigned: it may be of the assignment before.
func TestAWordUnderAnIDThatIsUsedAgain(t *testing.T) {
	ca := newAuthority(t)
	host := newNode(t, "swop-0")
	b := newRan(t, ca, newOperator(t, ca), []*node{host}, []ledger.Registration{host.register(t, ca)})
	b.make("job", "RUN_JOB")
	for _, id := range []string{"7", "8", "7"} {
		r := &swarmv1.AssignTaskRequest{Id: id, Stops: true, Groups: []*swarmv1.TaskGroup{{Name: "main", Peers: 1, Least: 1}}}
		b.assign(r, func(a *ledger.Assigned) { a.JobTerms = ledger.JobTerms{Stops: true} })
		b.end(id, "succeeded", nil, func(e *ledger.EndedAssignment) {
			e.End, e.Members = "stop_file", []ledger.Member{{Node: host.name, PeerID: host.id, State: "lost", Group: "main", Peers: 1}}
			host.asked(t, e, 0)
			e.Members[0].Signature = ""
		})
	}
	if r := verify(t, b.bytes, optionsOf(ca)); !r.Good() || r.UnsignedMembers != 1 {
		t.Errorf("found %v, %d unsigned", r.Problems, r.UnsignedMembers)
	}
}
