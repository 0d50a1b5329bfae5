package permit_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc/permit"
)

const ann = "spiffe://h.org/swarm/swci/ann"

// view has a node, an assignment, and rights of these sentences.
func view(sentences ...string) *state.State {
	s := state.New()
	s.Nodes["sl-1"] = &state.Node{Name: "sl-1", Role: "sl", PeerID: "key-1"}
	s.Bans = map[string]*state.Ban{"key-2": {PeerID: "key-2", Name: "sl-2"}}
	s.Tasks = &task.Board{Assignments: map[string]*task.Assignment{"7": {Request: task.Request{ID: "7", Task: "pull", Taskrunner: "tr"}}}}
	s.Rights = &state.Rights{Sentences: sentences}
	return s
}

// TestNeeds holds what methods are to a sentence: one that allows just that is enough, and the next weaker verb is not.
func TestNeeds(t *testing.T) {
	rules := permit.New()
	for method, need := range map[string]string{
		"ListNodes": "inspect nodes", "GetHealth": "read nodes", "StartProbe": "use nodes", "BanNode": "manage nodes", "InviteNode": "manage nodes",
		"ListContracts": "inspect contracts", "GetContractStatus": "read contracts", "PauseContract": "use contracts", "EndContract": "manage contracts",
		"ListTasks": "inspect tasks", "GetTask": "read tasks", "FinaliseTask": "manage tasks", "CreateTaskrunner": "manage tasks",
		"ListModels": "inspect models", "ReadLedger": "read logs", "ReadLogs": "read logs", "ReadOwnLog": "read logs", "ReadBackup": "read all-resources", "SetRights": "manage rights",
	} {
		if err := rules.Check(view("Allow spiffe://h.org/** to "+need), ann, method, nil); err != nil {
			t.Errorf("%s by %s: %v", method, need, err)
		}
		verb, resource, _ := strings.Cut(need, " ")
		weaker := map[string]string{"read": "inspect", "use": "read", "manage": "use"}[verb]
		for _, less := range []string{weaker + " " + resource, "manage jobs"} {
			if strings.HasPrefix(less, " ") {
				continue
			}
			if err := rules.Check(view("Allow spiffe://h.org/** to "+less), ann, method, nil); state.ReasonOf(err) != state.ReasonNoRight {
				t.Errorf("%s by %s: %v", method, less, err)
			}
		}
		if err := rules.Check(view("Allow spiffe://h.org/** to manage all-resources"), ann, method, nil); err != nil {
			t.Errorf("%s by all: %v", method, err)
		}
	}
	for _, free := range []string{"GetSwarm", "Challenge", "GetRights", "ExplainRight", "Report", "WatchContract", "Register"} {
		if err := rules.Check(view("Allow spiffe://x.org/** to manage rights"), ann, free, nil); err != nil {
			t.Errorf("%s: %v", free, err)
		}
	}
}

// TestNames holds that a sentence about a name is held against what the call is about, also where that is called by a key or an ID.
func TestNames(t *testing.T) {
	rules := permit.New()
	for _, tt := range []struct {
		method, where string
		m             proto.Message
		ok            bool
	}{
		{"BanNode", "node.name='sl-1'", &swarmv1.BanNodeRequest{Name: "sl-1"}, true},
		{"BanNode", "node.name='sl-1'", &swarmv1.BanNodeRequest{Name: "key-1"}, true},
		{"BanNode", "node.name!='sl-1'", &swarmv1.BanNodeRequest{Name: "key-1"}, false},
		{"UnbanNode", "node.name!='sl-2'", &swarmv1.UnbanNodeRequest{Name: "key-2"}, false},
		{"BanNode", "node.name!='sl-1'", &swarmv1.BanNodeRequest{}, false},
		{"ListNodes", "node.name='sl-1'", &swarmv1.ListNodesRequest{}, false},
		{"PauseContract", "contract.name='study'", &swarmv1.PauseContractRequest{Contract: "study"}, true},
		{"PauseContract", "contract.name='study'", &swarmv1.PauseContractRequest{Contract: "other"}, false},
		{"ListModels", "contract.name='study'", &swarmv1.ListModelsRequest{Contract: "study"}, true},
		{"DeleteTask", "task.name='pull'", &swarmv1.DeleteTaskRequest{Name: "pull"}, true},
		{"AssignTask", "task.name='other'", &swarmv1.AssignTaskRequest{Id: "7", Task: "other"}, true},
		{"AssignTask", "task.name='pull'", &swarmv1.AssignTaskRequest{Id: "7", Task: "other"}, false},
		{"CancelAssignment", "task.name='pull'", &swarmv1.CancelAssignmentRequest{Id: "7"}, true},
		{"CancelAssignment", "taskrunner.name!='tr'", &swarmv1.CancelAssignmentRequest{Id: "7"}, false},
		{"CancelAssignment", "task.name!='pull'", &swarmv1.CancelAssignmentRequest{Id: "8"}, false},
		{"ApproveTask", "task.name='pull'", &swarmv1.ApproveTaskRequest{Part: &swarmv1.PartOfHost{Assignment: "7", Task: "pull", Taskrunner: "tr"}}, true},
		{"ApproveTask", "taskrunner.name='tr'", &swarmv1.ApproveTaskRequest{Part: &swarmv1.PartOfHost{Assignment: "7", Task: "pull", Taskrunner: "tr"}}, true},
		{"RefuseTask", "task.name!='pull'", &swarmv1.RefuseTaskRequest{Part: &swarmv1.PartOfHost{Assignment: "7", Task: "other"}}, false}, // it is of pull
		{"RefuseTask", "task.name='pull'", &swarmv1.RefuseTaskRequest{}, false},
		{"ReadLogs", "node.name='sl-1'", &swarmv1.ReadLogsRequest{Part: &swarmv1.LogPart{Node: "sl-1"}}, true},
		{"ReadLogs", "node.name='sl-1'", &swarmv1.ReadLogsRequest{Part: &swarmv1.LogPart{Node: "sl-2"}}, false},
		{"ReadLogs", "task.name='pull'", &swarmv1.ReadLogsRequest{Part: &swarmv1.LogPart{Node: "sl-1", Assignment: "7"}}, true},
		{"ReadLogs", "task.name='pull'", &swarmv1.ReadLogsRequest{Part: &swarmv1.LogPart{Node: "sl-1"}}, false},
		{"DeleteTaskrunner", "task.name='tr'", &swarmv1.DeleteTaskrunnerRequest{Name: "tr"}, false},
		{"DeleteTaskrunner", "taskrunner.name='tr'", &swarmv1.DeleteTaskrunnerRequest{Name: "tr"}, true},
	} {
		resource := map[byte]string{'n': "nodes", 'c': "contracts", 't': "tasks"}[tt.where[0]]
		switch tt.method {
		case "ListModels":
			resource = "models"
		case "ReadLogs":
			resource = "logs"
		}
		err := rules.Check(view("Allow spiffe://h.org/** to manage "+resource+" where "+tt.where), ann, tt.method, tt.m)
		if (err == nil) != tt.ok {
			t.Errorf("%s of %v where %s: %v", tt.method, tt.m, tt.where, err)
		}
	}
}

// TestPeople holds that rights are about operators and auditors, and that a change of them counts at once.
func TestPeople(t *testing.T) {
	rules := permit.New()
	call := func(v *state.State, who string) error {
		id, err := identity.ParseIDString(who)
		if err != nil {
			t.Fatal(err)
		}
		return rules.CheckCall(v, id, "/swarm.v1.NodeService/ListNodes", &swarmv1.ListNodesRequest{})
	}
	none := view()
	none.Rights = nil
	closed, open := view("Allow spiffe://x.org/** to manage all-resources"), view("Allow spiffe://h.org/** to inspect nodes")
	for range 2 {
		if err := call(none, ann); err != nil {
			t.Error(err)
		}
		for _, person := range []string{ann, "spiffe://h.org/swarm/audit"} {
			if err := call(closed, person); state.ReasonOf(err) != state.ReasonNoRight {
				t.Errorf("%s: %v", person, err)
			}
		}
		if err := call(open, ann); err != nil {
			t.Error(err)
		}
		for _, node := range []string{"spiffe://h.org/swarm/sl/a", "spiffe://h.org/swarm/sn", "spiffe://h.org/swarm/swop/h"} {
			if err := call(closed, node); err != nil {
				t.Errorf("%s: %v", node, err)
			}
		}
	}
}

func TestCommand(t *testing.T) {
	o := &ledger.Order{By: ann}
	made, err := permit.SetCommand(&swarmv1.SetRightsRequest{Sentences: []string{"allow " + ann + " to MANAGE rights"}}, o, 7)
	c, ok := made.(state.SetRights)
	if err != nil || !ok || c.By != ann || c.OrderOf() != o || len(c.Sentences) != 1 || c.Sentences[0] != "Allow "+ann+" to manage rights" || c.AtMS != 7 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := permit.SetCommand(&swarmv1.SetRightsRequest{Sentences: []string{"Deny all"}}, o, 7); state.ReasonOf(err) != state.ReasonBadCommand {
		t.Errorf("no sentence: %v", err)
	}
}
