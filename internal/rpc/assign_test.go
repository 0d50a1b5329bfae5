package rpc_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/assign"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc"
)

// heard remembers what hosts say.
type heard struct {
	mu  sync.Mutex
	all []assign.HostReport
}

// Record implements rpc.Hosts.
func (h *heard) Record(r assign.HostReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, r)
}

func (h *heard) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

// finalised makes a task that can be assigned, and returns its digest.
func (p *peer) finalised(t *testing.T, name string) string {
	t.Helper()
	must(p.tasks().CreateTask(t.Context(), signed(p, pulling(name))))(t)
	must(p.tasks().EditTask(t.Context(), signed(p, &swarmv1.EditTaskRequest{Name: name, Line: 1, Text: "Tag: 1"})))(t)
	return must(p.tasks().FinaliseTask(t.Context(), signed(p, &swarmv1.FinaliseTaskRequest{Name: name})))(t).Msg.GetTask().GetDigest()
}

func assigning(id, digest string) *swarmv1.AssignTaskRequest {
	return &swarmv1.AssignTaskRequest{
		Id: id, Task: "pull", Digest: digest, Taskrunner: task.DefaultTaskrunner, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(),
		Groups: []*swarmv1.TaskGroup{{Name: "peers", Peers: 1, Least: 1}},
	}
}

// host registers a SWOP that takes tasks of the default taskrunner.
func (s *swarm) host(t *testing.T, name string, key p2pcrypto.PrivKey) *peer {
	t.Helper()
	p := s.as("/swarm/swop")
	m := p.registration(t, name, identity.RoleSWOP, key)
	m.Node.Offer = &swarmv1.Offer{Taskrunner: task.DefaultTaskrunner, Peers: 2, Group: "g"}
	p.speak(name, must(p.nodes().Register(t.Context(), with(p, m)))(t).Msg.GetToken())
	return p
}

// place has the leader put an assignment on a host.
func (s *swarm) place(t *testing.T, id, host string) {
	t.Helper()
	must(s.core.Propose(t.Context(), state.MoveAssignments{AtMS: 5, Moves: []task.Move{
		{Assignment: id, Do: task.Place, Members: []task.Placement{{Node: host, Group: "peers", Peers: 1}}},
	}}))(t)
}

// TestOperatorsAssignTasks: what an operator signs is handed to hosts once, shows in the assignment and its taskrunner, and is ended by the
// operator's word.
func TestOperatorsAssignTasks(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci/admin")
	digest := p.finalised(t, "pull")
	for range 2 {
		a := must(p.tasks().AssignTask(t.Context(), signed(p, assigning("7", digest))))(t).Msg.GetAssignment()
		if a.GetPhase() != "waiting" || a.GetStatus() != "ASSIGNED" || a.GetTaskType() != task.PullImage || a.GetBy() != "spiffe://hospital.example/swarm/swci/admin" || a.GetCreatedUnixMs() == 0 {
			t.Errorf("assigned: %v", a)
		}
	}
	s.host(t, "h", nodeKey(t))
	s.place(t, "7", "h")
	s.wantsParts(t)
	run := must(s.as("/swarm/audit").tasks().GetTaskrunner(t.Context(), with(p, &swarmv1.GetTaskrunnerRequest{Name: task.DefaultTaskrunner})))(t).Msg
	if m := run.GetAssignment().GetMembers(); run.GetTaskrunner().GetStatus() != "ASSIGNED" || len(m) != 1 || m[0].GetNode() != "h" || m[0].GetStatus() != "ASSIGNED" ||
		m[0].GetPeerId() == "" || run.GetAssignment().GetActivePeers() != 1 {
		t.Errorf("taskrunner: %v", run)
	}
	_, err := p.tasks().AssignTask(t.Context(), signed(p, assigning("8", digest)))
	wantReason(t, "a second one", err, "TASKRUNNER_BUSY")
	ended := must(p.tasks().CancelAssignment(t.Context(), signed(p, &swarmv1.CancelAssignmentRequest{Id: "7", Reason: "by\x1b[2J hand"})))(t).Msg.GetAssignment()
	if ended.GetPhase() != "ending" || ended.GetVerdict() != "cancelled" || strings.Contains(ended.GetReason(), "\x1b") || ended.GetEndedUnixMs() == 0 {
		t.Errorf("cancelled: %v", ended)
	}
	must(p.tasks().CreateTaskrunner(t.Context(), signed(p, &swarmv1.CreateTaskrunnerRequest{Name: "tr"})))(t)
	other := assigning("8", digest)
	other.Taskrunner, other.Hosts = "tr", []string{"h"}
	must(p.tasks().AssignTask(t.Context(), signed(p, other)))(t)
	must(p.tasks().ResetTaskrunner(t.Context(), signed(p, &swarmv1.ResetTaskrunnerRequest{Name: "tr"})))(t)
	all := must(p.tasks().ListAssignments(t.Context(), with(p, &swarmv1.ListAssignmentsRequest{})))(t).Msg.GetAssignments()
	if len(all) != 2 || all[0].GetId() != "7" || all[1].GetId() != "8" || all[1].GetVerdict() != "cancelled" || len(all[0].GetMembers()) != 0 || len(all[1].GetHosts()) != 0 {
		t.Errorf("listed: %v", all)
	}
	one := must(p.tasks().GetAssignment(t.Context(), with(p, &swarmv1.GetAssignmentRequest{Id: "8"})))(t).Msg.GetAssignment()
	if h := one.GetHosts(); len(h) != 1 || h[0] != "h" {
		t.Errorf("shown: %v", one)
	}
	for what, err := range map[string]error{
		"a taskrunner":  second(p.tasks().GetTaskrunner(t.Context(), with(p, &swarmv1.GetTaskrunnerRequest{Name: "x"}))),
		"an assignment": second(p.tasks().GetAssignment(t.Context(), with(p, &swarmv1.GetAssignmentRequest{Id: "9"}))),
		"what to end":   second(p.tasks().CancelAssignment(t.Context(), signed(p, &swarmv1.CancelAssignmentRequest{Id: "9"}))),
		"what to reset": second(p.tasks().ResetTaskrunner(t.Context(), signed(p, &swarmv1.ResetTaskrunnerRequest{Name: "x"}))),
	} {
		wantReason(t, what, err, "TASK_UNKNOWN")
	}
}

// wantsParts holds what an SL hears of the part that it was started for: that of the host h in assignment 7 is the only one.
func (s *swarm) wantsParts(t *testing.T) {
	t.Helper()
	sl := s.as("/swarm/sl")
	sl.register(t, "sl-0", nodeKey(t))
	for part, want := range map[string]bool{"h/7/1/0": true, "h/7/2/0": false, "h/8/1/0": false, "other/7/1/0": false, "": false, "h": false} {
		if got := must(sl.sessions().Report(t.Context(), with(sl, &swarmv1.ReportRequest{Part: part})))(t).Msg.GetPartWanted(); got != want {
			t.Errorf("part %q is wanted: %v", part, got)
		}
	}
	_, err := sl.sessions().Report(t.Context(), with(sl, &swarmv1.ReportRequest{Part: strings.Repeat("h", 1<<10)}))
	wantReason(t, "a long part", err, "BAD_REQUEST")
}

func second[T any](_ *connect.Response[T], err error) error { return err }

// TestAssignmentsThatAreRefused: who may not assign, and what no host could go by.
func TestAssignmentsThatAreRefused(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci/admin")
	digest := p.finalised(t, "pull")
	_, err := p.tasks().AssignTask(t.Context(), with(p, assigning("7", digest)))
	wantReason(t, "unsigned", err, "ORDER_MISSING")
	for _, role := range []string{"sn", "swop", "audit"} {
		who := s.as("/swarm/" + role)
		_, err := who.tasks().AssignTask(t.Context(), signed(who, assigning("7", digest)))
		wantReason(t, "by the role "+role, err, "ROLE_DENIED")
	}
	for want, changes := range map[string]map[string]func(r *swarmv1.AssignTaskRequest){
		"BAD_COMMAND": {
			"no digest":      func(r *swarmv1.AssignTaskRequest) { r.Digest = "" },
			"no end":         func(r *swarmv1.AssignTaskRequest) { r.ExpiresUnixMs = 0 },
			"late":           func(r *swarmv1.AssignTaskRequest) { r.ExpiresUnixMs = 1 },
			"no peers":       func(r *swarmv1.AssignTaskRequest) { r.Groups = nil },
			"no ID":          func(r *swarmv1.AssignTaskRequest) { r.Id = "seven" },
			"unsorted hosts": func(r *swarmv1.AssignTaskRequest) { r.Hosts = []string{"b", "a"} },
		},
		"STALE_TASK":   {"another digest": func(r *swarmv1.AssignTaskRequest) { r.Digest = strings.Repeat("0", 64) }},
		"TASK_UNKNOWN": {"another taskrunner": func(r *swarmv1.AssignTaskRequest) { r.Taskrunner = "tr" }, "another task": func(r *swarmv1.AssignTaskRequest) { r.Task = "x" }},
	} {
		for what, change := range changes {
			r := assigning("7", digest)
			change(r)
			_, err := p.tasks().AssignTask(t.Context(), signed(p, r))
			wantReason(t, what, err, want)
		}
	}
}

// TestHostsOfferThemselves: a SWOP registers what it takes tasks for, and operators see that; an SL can't.
func TestHostsOfferThemselves(t *testing.T) {
	s := newSwarm(t)
	s.host(t, "h", nodeKey(t))
	if o := s.listed()["h"].GetOffer(); o.GetTaskrunner() != task.DefaultTaskrunner || o.GetPeers() != 2 || o.GetGroup() != "g" {
		t.Errorf("listed: %v", o)
	}
	big := s.as("/swarm/swop")
	n := big.registration(t, "big", identity.RoleSWOP, nodeKey(t))
	n.Node.Offer = &swarmv1.Offer{Taskrunner: "tr", Peers: 1, Cpus: 64, MemoryBytes: 1 << 38, Gpus: 8, Labels: []string{"site=a"}}
	must(big.nodes().Register(t.Context(), with(big, n)))(t)
	if o := s.listed()["big"].GetOffer(); !proto.Equal(o, n.Node.GetOffer()) {
		t.Errorf("listed: %v", o)
	}
	sl := s.as("/swarm/sl")
	m := sl.registration(t, "sl-0", identity.RoleSL, nodeKey(t))
	m.Node.Offer = &swarmv1.Offer{Taskrunner: task.DefaultTaskrunner, Peers: 1}
	_, err := sl.nodes().Register(t.Context(), with(sl, m))
	wantReason(t, "by an SL", err, "BAD_COMMAND")
	for what, o := range map[string]*swarmv1.Offer{
		"no taskrunner": {Peers: 1}, "no peers": {Taskrunner: "tr"}, "a bad group": {Taskrunner: "tr", Peers: 1, Group: "a b"}, "a long name": {Taskrunner: strings.Repeat("x", 9999), Peers: 1},
		"many labels": {Taskrunner: "tr", Peers: 1, Labels: slices.Repeat([]string{"a=b"}, 99)},
	} {
		p := s.as("/swarm/swop")
		m := p.registration(t, "h-1", identity.RoleSWOP, nodeKey(t))
		m.Node.Offer = o
		_, err := p.nodes().Register(t.Context(), with(p, m))
		wantReason(t, what, err, "BAD_COMMAND")
	}
}

// TestHostsWatchWhatIsTheirs: a host sees its assignments whole, with the operator's order as it was signed, whenever they change and at no
// other time. Others see nothing, and an SL may not look.
func TestHostsWatchWhatIsTheirs(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci/admin")
	digest := p.finalised(t, "pull")
	h := s.host(t, "h", nodeKey(t))
	stream := must(h.tasks().WatchAssignments(t.Context(), with(h, &swarmv1.WatchAssignmentsRequest{})))(t)
	next := func() *swarmv1.HostedAssignments {
		t.Helper()
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		return stream.Msg()
	}
	if m := next(); len(m.GetAssignments()) != 0 {
		t.Fatalf("at first: %v", m)
	}
	asked := signed(p, assigning("7", digest))
	must(p.tasks().AssignTask(t.Context(), asked))(t)
	must(p.tasks().CreateTaskrunner(t.Context(), signed(p, &swarmv1.CreateTaskrunnerRequest{Name: "tr"})))(t) // the host's matter is neither
	s.place(t, "7", "h")
	m := next()
	all, err := onwire.FromHosted(m.GetAssignments())
	if err != nil || len(all) != 1 || all[0].ID != "7" || all[0].Phase != task.Preparing || len(all[0].Members) != 1 || all[0].Members[0].State != task.Placed {
		t.Fatalf("placed: %v: %v", m, err)
	}
	o := all[0].Order
	if o.By != "spiffe://hospital.example/swarm/swci/admin" || string(o.Request) != string(asked.Msg.GetOrder().GetRequest()) {
		t.Errorf("the order reached the host as %s of %s", o.Request, o.By)
	}
	cert := must(p.source.GetX509SVID())(t).Certificates[0]
	message := identity.OrderMessage(identity.Order{
		SwarmID: swarmID, Method: o.Method, Request: o.Request, Nonce: o.Nonce, Ledger: o.Witnessed.Hash, Length: o.Witnessed.Length, AskedMS: o.AskedMS,
	})
	if err := identity.VerifySVIDSignature(cert, message, o.Signature); err != nil || string(o.Chain[0]) != string(cert.Raw) {
		t.Errorf("the host can't verify the order: %v", err)
	}
	must(p.tasks().CancelAssignment(t.Context(), signed(p, &swarmv1.CancelAssignmentRequest{Id: "7"})))(t)
	if m := next().GetAssignments(); len(m) != 1 || !m[0].GetMembers()[0].GetStop() {
		t.Errorf("cancelled: %v", m)
	}
	sl := s.as("/swarm/sl")
	sl.register(t, "sl-0", nodeKey(t))
	denied := must(sl.tasks().WatchAssignments(t.Context(), with(sl, &swarmv1.WatchAssignmentsRequest{})))(t)
	if denied.Receive() {
		t.Error("an SL watches")
	}
	wantReason(t, "an SL", denied.Err(), "ROLE_DENIED")
	s.server.Stop()
	if stream.Receive() {
		t.Errorf("after the stop: %v", stream.Msg())
	}
	wantReason(t, "the stop", stream.Err(), "STOPPING")
}

// TestHostsReportMembers: what a host says of its members reaches the leader's memory, each time all of it; what an SN passes on only as the
// host has signed it.
func TestHostsReportMembers(t *testing.T) {
	said := &heard{}
	s := startSwarm(t, rpc.Config{BodyTime: time.Second}, func(c *rpc.Config) { c.Hosts = said })
	s.second(t, "sn-1")
	key := nodeKey(t)
	h := s.host(t, "h", key)
	members := []task.MemberReport{{Assignment: "7", Epoch: 1, Report: task.Report{Node: "h", State: task.Exited, Code: 3, Text: "no space left"}}}
	m := &swarmv1.ReportRequest{Members: onwire.Members(members)}
	must(h.sessions().Report(t.Context(), with(h, m)))(t)
	must(h.sessions().Report(t.Context(), with(h, &swarmv1.ReportRequest{})))(t)
	if said.count() != 2 || said.all[0].Node != "h" || len(said.all[0].Members) != 1 || said.all[0].Members[0] != members[0] || len(said.all[1].Members) != 0 {
		t.Fatalf("heard: %+v", said.all)
	}
	if err := s.passOn(h, "sn-1", m); reasonOf(err) != "SIGN" || said.count() != 2 {
		t.Errorf("passed on unsigned: %v, heard %d times", err, said.count())
	}
	m.MembersSignature = must(key.Sign(onwire.MembersMessage(swarmID, "h", m.GetMembers())))(t)
	if err := s.passOn(h, "sn-1", m); err != nil || said.count() != 3 {
		t.Errorf("passed on as signed: %v, heard %d times", err, said.count())
	}
	m.Members[0].Signature = must(key.Sign(onwire.MemberMessage(swarmID, "h", m.GetMembers()[0])))(t)
	must(h.sessions().Report(t.Context(), with(h, m)))(t)
	if got := said.all[said.count()-1].Members[0].Signature; got != base64.StdEncoding.EncodeToString(m.Members[0].GetSignature()) {
		t.Errorf("the signature for the ledger is %q", got)
	}
	m.Members[0].Group, m.Members[0].Peers = "peers", 2
	m.Members[0].Signature = must(key.Sign(onwire.MemberMessage(swarmID, "h", m.GetMembers()[0])))(t)
	must(h.sessions().Report(t.Context(), with(h, m)))(t)
	if got := said.all[said.count()-1].Members[0]; got.Group != "peers" || got.Peers != 2 {
		t.Errorf("the part that was signed is %+v", got)
	}
	m.Members[0].Peers++
	_, err := h.sessions().Report(t.Context(), with(h, m))
	wantReason(t, "signed for fewer peers", err, "SIGNATURE_REFUSED")
	m.Members[0].Peers--
	m.Members[0].Epoch++
	_, err = h.sessions().Report(t.Context(), with(h, m))
	wantReason(t, "signed for another epoch", err, "SIGNATURE_REFUSED")
	m.Members[0].Signature = make([]byte, 65)
	_, err = h.sessions().Report(t.Context(), with(h, m))
	wantReason(t, "a long signature", err, "BAD_REQUEST")
	m.Members[0].Epoch--
	at := &swarmv1.MemberReport{Assignment: "7", Epoch: 1, State: "prepared", Address: "10.9.0.1"}
	at.AddressSignature = must(key.Sign(onwire.MemberAddressMessage(swarmID, "h", at)))(t)
	must(h.sessions().Report(t.Context(), with(h, &swarmv1.ReportRequest{Members: []*swarmv1.MemberReport{at}})))(t)
	if got := said.all[said.count()-1].Members[0]; got.IP != "10.9.0.1" {
		t.Errorf("the address that was signed is %+v", got)
	}
	at.Address = "10.9.0.2"
	_, err = h.sessions().Report(t.Context(), with(h, &swarmv1.ReportRequest{Members: []*swarmv1.MemberReport{at}}))
	wantReason(t, "signed for another address", err, "SIGNATURE_REFUSED")
	m.Members[0].Epoch++
	said.all = said.all[:3]
	m.Members[0].Code, m.Members[0].Signature = 0, nil
	wantReason(t, "changed on its way", s.passOn(h, "sn-1", m), "SIGNATURE_REFUSED")
	for what, bad := range map[string][]*swarmv1.MemberReport{
		"too many": make([]*swarmv1.MemberReport, task.MaxHosted+1), "lost by its own word": {{Assignment: "7", State: "lost"}},
		"words without end": {{Assignment: "7", State: "asked", Text: strings.Repeat("x", 4<<10)}},
	} {
		_, err := h.sessions().Report(t.Context(), with(h, &swarmv1.ReportRequest{Members: bad}))
		wantReason(t, what, err, "BAD_REQUEST")
	}
	sl := s.as("/swarm/sl")
	sl.register(t, "sl-0", nodeKey(t))
	_, err = sl.sessions().Report(t.Context(), with(sl, &swarmv1.ReportRequest{Members: onwire.Members(members)}))
	wantReason(t, "of an SL", err, "BAD_REQUEST")
	if said.count() != 3 {
		t.Errorf("heard %d times", said.count())
	}
}

// TestTheLedgerHasWhoAssigned and who ended it.
func TestTheLedgerHasWhoAssigned(t *testing.T) {
	s := newSwarm(t)
	must(s.core.Propose(t.Context(), state.RecordBundle{TrustDomain: "hospital.example", Certificates: [][]byte{{1}}, AtMS: 1}))(t)
	p := s.as("/swarm/swci/admin")
	digest := p.finalised(t, "pull")
	must(p.tasks().AssignTask(t.Context(), signed(p, assigning("7", digest))))(t)
	must(p.tasks().ResetTaskrunner(t.Context(), signed(p, &swarmv1.ResetTaskrunnerRequest{Name: task.DefaultTaskrunner, Reason: "enough"})))(t)
	var found []string
	for _, line := range s.core.Records() {
		_, body, err := ledger.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		switch b := body.(type) {
		case ledger.Assigned:
			found = append(found, b.Assignment+" of "+b.Task+" by "+b.By+" as "+b.Order.Method)
		case ledger.EndedAssignment:
			found = append(found, b.Assignment+" "+b.Verdict+" as "+b.Order.Method+": "+b.Reason)
		}
	}
	if got, want := strings.Join(found, "\n"), "7 of pull by spiffe://hospital.example/swarm/swci/admin as AssignTask\n7 cancelled as ResetTaskrunner: enough"; got != want {
		t.Errorf("recorded:\n%s", got)
	}
}
