package rpc_test

import (
	"errors"
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

func (p *peer) rights() swarmv1connect.RightsServiceClient {
	return swarmv1connect.NewRightsServiceClient(p.http, p.url())
}

func (p *peer) setRights(t *testing.T, sentences ...string) error {
	_, err := p.rights().SetRights(t.Context(), signed(p, &swarmv1.SetRightsRequest{Sentences: sentences}))
	return err
}

const (
	adminRight = "Allow spiffe://hospital.example/swarm/swci/admin to manage all-resources"
	annRight   = "Allow spiffe://hospital.example/swarm/swci/ann to use tasks where task.name='pull'"
)

// TestRightsNarrowWhatRolesMayDo: without rights roles decide; with them operators and auditors may do what a sentence allows, by name too,
// nodes go on as before, and the rights themselves are changed by those who may.
func TestRightsNarrowWhatRolesMayDo(t *testing.T) {
	s := newSwarm(t)
	must(s.core.Propose(t.Context(), state.RecordBundle{TrustDomain: "hospital.example", Certificates: [][]byte{{1}}, AtMS: 1}))(t)
	admin, ann, auditor, sl := s.as("/swarm/swci/admin"), s.as("/swarm/swci/ann"), s.as("/swarm/audit"), s.as("/swarm/sl/sl-0")
	sl.register(t, "sl-0", nodeKey(t))
	if r := must(auditor.rights().GetRights(t.Context(), with(auditor, &swarmv1.GetRightsRequest{})))(t).Msg.GetRights(); r != nil {
		t.Errorf("there are rights at first: %v", r)
	}
	must(ann.tasks().CreateTask(t.Context(), signed(ann, pulling("pull"))))(t)
	must(ann.tasks().CreateTask(t.Context(), signed(ann, pulling("other"))))(t)

	wantReason(t, "unsigned", func() error {
		_, err := admin.rights().SetRights(t.Context(), with(admin, &swarmv1.SetRightsRequest{Sentences: []string{adminRight}}))
		return err
	}(), "ORDER_MISSING")
	wantReason(t, "what does not parse", admin.setRights(t, "Allow all"), "BAD_COMMAND")
	wantReason(t, "of another only", admin.setRights(t, annRight), "LAST_RIGHT")
	wantReason(t, "by an auditor", auditor.setRights(t, adminRight), "ROLE_DENIED")
	if err := admin.setRights(t, strings.ToUpper(adminRight[:5])+adminRight[5:], annRight); err != nil {
		t.Fatal(err)
	}
	shown := must(ann.rights().GetRights(t.Context(), with(ann, &swarmv1.GetRightsRequest{})))(t).Msg.GetRights()
	if got := shown.GetSentences(); len(got) != 2 || got[0] != adminRight || got[1] != annRight || !strings.HasSuffix(shown.GetBy(), "/admin") || shown.GetSetUnixMs() == 0 {
		t.Errorf("shown: %v", shown)
	}

	must(ann.tasks().GetTask(t.Context(), with(ann, &swarmv1.GetTaskRequest{Name: "pull"})))(t)
	_, err := ann.tasks().GetTask(t.Context(), with(ann, &swarmv1.GetTaskRequest{Name: "other"}))
	wantReason(t, "another task", err, "NO_RIGHT")
	if !strings.Contains(err.Error(), "ann may not read tasks other: sentence 2 of the swarm's rights comes nearest: task.name is 'other', not 'pull'") {
		t.Error(err)
	}
	_, err = ann.tasks().ListTasks(t.Context(), with(ann, &swarmv1.ListTasksRequest{}))
	wantReason(t, "all tasks", err, "NO_RIGHT")
	_, err = ann.tasks().DeleteTask(t.Context(), signed(ann, &swarmv1.DeleteTaskRequest{Name: "pull"}))
	wantReason(t, "a stronger verb", err, "NO_RIGHT")
	stream, err := swarmv1connect.NewLedgerServiceClient(auditor.http, auditor.url()).ReadLedger(t.Context(), with(auditor, &swarmv1.ReadLedgerRequest{}))
	if err == nil && !stream.Receive() {
		err = stream.Err()
	}
	wantReason(t, "an auditor without a sentence", err, "NO_RIGHT")
	wantReason(t, "the rights", ann.setRights(t, adminRight, annRight, "Allow spiffe://hospital.example/** to manage rights"), "NO_RIGHT")
	if err := report(t, sl); err != nil {
		t.Errorf("a node: %v", err)
	}
	must(sl.nodes().ListNodes(t.Context(), with(sl, &swarmv1.ListNodesRequest{})))(t)
	must(admin.tasks().DeleteTask(t.Context(), signed(admin, &swarmv1.DeleteTaskRequest{Name: "pull"})))(t)

	recorded := 0
	for _, line := range s.core.Records() {
		if _, body, err := ledger.Parse(line); err == nil && body.Kind() == "rights" {
			recorded++
		}
	}
	if recorded != 1 {
		t.Errorf("rights were recorded %d times", recorded)
	}
}

// TestForgedOrdersHaveNoRights: the leader goes by who signed, whatever SN passes an order on.
func TestForgedOrdersHaveNoRights(t *testing.T) {
	s := newSwarm(t)
	admin, ann := s.as("/swarm/swci/admin"), s.as("/swarm/swci/ann")
	if err := admin.setRights(t, adminRight); err != nil {
		t.Fatal(err)
	}
	d := must(ann.draft(pulling("pull")))(t)
	o := d.sign(t)
	_, err := s.server.Vet(state.CreateTask{Task: "pull", Order: &ledger.Order{
		By: "spiffe://hospital.example/swarm/swci/admin", Method: "CreateTask", Request: o.GetRequest(), AskedMS: o.GetAskedUnixMs(), Nonce: o.GetNonce(),
		Witnessed: ledger.Witness{Length: o.GetLedgerLength(), Hash: o.GetLedgerHead()}, Signature: o.GetSignature(), Chain: o.GetChain(),
	}})
	if state.ReasonOf(err) != state.ReasonNoRight {
		t.Errorf("vetted: %v", err)
	}
}

// TestHostsAskForForwards: a host learns whether the rights let somebody end an assignment, which a connection to its members takes; nobody else may ask.
func TestHostsAskForForwards(t *testing.T) {
	s := newSwarm(t)
	admin, ann, host := s.as("/swarm/swci/admin"), s.as("/swarm/swci/ann"), s.host(t, "h-0", nodeKey(t))
	check := func(p *peer, assignment, by string) error {
		_, err := p.rights().CheckForward(t.Context(), with(p, &swarmv1.CheckForwardRequest{Assignment: assignment, SpiffeId: by}))
		return err
	}
	const domain = "spiffe://hospital.example/swarm/swci/"
	if err := check(host, "7", domain+"ann"); err != nil {
		t.Errorf("without rights: %v", err)
	}
	if err := admin.setRights(t, adminRight, "Allow "+domain+"ann to read tasks", "Allow "+domain+"bob to use tasks"); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "who may read alone", check(host, "7", domain+"ann"), "NO_RIGHT")
	if err := errors.Join(check(host, "7", domain+"bob"), check(host, "7", domain+"admin")); err != nil {
		t.Error(err)
	}
	wantReason(t, "nobody", check(host, "7", ""), "BAD_COMMAND")
	wantReason(t, "nothing", check(host, "", domain+"ann"), "BAD_COMMAND")
	for _, p := range []*peer{ann, s.as("/swarm/sl/sl-0"), s.as("/swarm/audit")} {
		wantReason(t, "no host", check(p, "7", domain+"bob"), "ROLE_DENIED")
	}
}

// TestHostsAskForReaders: a host learns whether the rights let somebody read a log, as an SN would hold a call to them; nobody else may ask.
func TestHostsAskForReaders(t *testing.T) {
	s := newSwarm(t)
	admin, ann, host := s.as("/swarm/swci/admin"), s.as("/swarm/swci/ann"), s.host(t, "h-0", nodeKey(t))
	check := func(p *peer, part *swarmv1.LogPart, by string) error {
		_, err := p.rights().CheckReader(t.Context(), with(p, &swarmv1.CheckReaderRequest{Part: part, SpiffeId: by}))
		return err
	}
	const domain = "spiffe://hospital.example/swarm/swci/"
	own := &swarmv1.LogPart{Node: "h-0"}
	if err := check(host, own, domain+"ann"); err != nil {
		t.Errorf("without rights: %v", err)
	}
	if err := admin.setRights(t, adminRight, "Allow "+domain+"ann to read logs where node.name='h-1'"); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "another host", check(host, own, domain+"ann"), "NO_RIGHT")
	if err := errors.Join(check(host, own, domain+"admin"), check(host, &swarmv1.LogPart{Node: "h-1"}, domain+"ann")); err != nil {
		t.Error(err)
	}
	wantReason(t, "nobody", check(host, own, ""), "BAD_COMMAND")
	for _, p := range []*peer{ann, s.as("/swarm/sl/sl-0"), s.as("/swarm/audit")} {
		wantReason(t, "no host", check(p, own, domain+"ann"), "ROLE_DENIED")
	}
	wantReason(t, "no node", check(s.as("/swarm/swop"), own, domain+"ann"), "TOKEN_REFUSED")
}

func TestExplainRight(t *testing.T) {
	s := newSwarm(t)
	admin, ann := s.as("/swarm/swci/admin"), s.as("/swarm/swci/ann")
	explain := func(verb, resource, name, who string) *swarmv1.ExplainRightResponse {
		t.Helper()
		res, err := ann.rights().ExplainRight(t.Context(), with(ann, &swarmv1.ExplainRightRequest{Verb: verb, Resource: resource, Name: name, SpiffeId: who}))
		if err != nil {
			t.Fatal(err)
		}
		return res.Msg
	}
	const domain = "spiffe://hospital.example"
	if r := explain("manage", "contracts", "", ""); !r.GetAllowed() || r.GetReason() != "role swci may, as nobody has set rights in this swarm" {
		t.Errorf("before: %v", r)
	}
	if err := admin.setRights(t, adminRight, annRight); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		verb, resource, name, who string
		allowed                   bool
		number                    uint32
		want                      string
	}{
		{"manage", "contracts", "c", "", false, 2, "it is about tasks, not about contracts"},
		{"manage", "contracts", "c", domain + "/swarm/swci/admin", true, 1, ""},
		{"use", "tasks", "pull", "", true, 2, ""},
		{"use", "tasks", "", "", false, 2, "task.name is not known"},
		{"manage", "tasks", "pull", domain + "/swarm/audit/x", false, 0, "role audit may not manage tasks, which no sentence changes"},
		{"read", "logs", "", domain + "/swarm/sl/a", true, 0, "role sl may, as a node of the swarm"},
		{"manage", "jobs", "", "", false, 0, "this version has no call by which anybody can manage jobs"},
	} {
		r := explain(tt.verb, tt.resource, tt.name, tt.who)
		if r.GetAllowed() != tt.allowed || r.GetNumber() != tt.number || !strings.Contains(r.GetReason(), tt.want) || (r.GetSentence() == "") != (tt.number == 0) {
			t.Errorf("%+v: got %v", tt, r)
		}
	}
	for _, bad := range []*swarmv1.ExplainRightRequest{{Verb: "see", Resource: "tasks"}, {Verb: "use", Resource: "task"}, {Verb: "use", Resource: "tasks", SpiffeId: "ann"}} {
		_, err := ann.rights().ExplainRight(t.Context(), with(ann, bad))
		wantReason(t, bad.String(), err, "BAD_COMMAND")
	}
}
