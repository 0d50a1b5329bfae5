package permit_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/rpc/permit"
)

// TestWhatAnSLMaySign: jobs of its own, with rights in the swarm or without; a sentence gives it no more.
func TestWhatAnSLMaySign(t *testing.T) {
	const sl, other = "spiffe://h.org/swarm/sl/sl-1", "spiffe://h.org/swarm/sl/sl-2"
	const third = "spiffe://h.org/swarm/sl/sl-3"
	s := state.New()
	s.Rights = &state.Rights{Sentences: []string{"Allow spiffe://h.org/swarm/** to manage all-resources"}}
	s.Nodes["sl-1"] = &state.Node{Name: "sl-1", Role: "sl", SPIFFEID: sl}
	s.Nodes["sl-2"] = &state.Node{Name: "sl-2", Role: "sl", SPIFFEID: other}
	s.Nodes["sl-3"] = &state.Node{Name: "sl-3", Role: "sl", SPIFFEID: third}
	s.Nodes["swop"] = &state.Node{Name: "swop", Role: "swop", SPIFFEID: sl}
	s.Tasks = &task.Board{
		Tasks: map[string]*task.Task{"own": {Name: "own", By: sl}, "other": {Name: "other", By: other}, "a": {By: other}, "b": {By: other}, "c": {By: other}},
		Assignments: map[string]*task.Assignment{
			"7": {Request: task.Request{ID: "7", By: sl}, Phase: task.Over}, "8": {Request: task.Request{ID: "8", By: other, JobTerms: task.JobTerms{Beside: "sl-2"}}, Phase: task.Running},
			"6": {Request: task.Request{ID: "6", By: "spiffe://h.org/swarm/swci", JobTerms: task.JobTerms{Beside: "sl-3"}}, Phase: task.Running},
		},
	}
	for _, tt := range []struct {
		name, by string
		m        proto.Message
		want     string // empty: it may
	}{
		{"makes a job", sl, &swarmv1.CreateTaskRequest{Name: "new", Type: "RUN_JOB"}, ""},
		{"makes its job again", sl, &swarmv1.CreateTaskRequest{Name: "own", Type: "RUN_JOB"}, ""},
		{"makes another task", sl, &swarmv1.CreateTaskRequest{Name: "new", Type: "RUN_SWARM"}, "jobs alone, and no RUN_SWARM"},
		{"makes what another has", sl, &swarmv1.CreateTaskRequest{Name: "other", Type: "RUN_JOB"}, "task other is not its own"},
		{"makes one too many", other, &swarmv1.CreateTaskRequest{Name: "new", Type: "RUN_JOB"}, "has enough"},
		{"writes", sl, &swarmv1.EditTaskRequest{Name: "own"}, ""},
		{"writes in another's", sl, &swarmv1.EditTaskRequest{Name: "other"}, "not its own"},
		{"fixes another's", sl, &swarmv1.FinaliseTaskRequest{Name: "other"}, "not its own"},
		{"deletes", sl, &swarmv1.DeleteTaskRequest{Name: "own"}, ""},
		{"deletes another's", sl, &swarmv1.DeleteTaskRequest{Name: "other"}, "not its own"},
		{"assigns", sl, &swarmv1.AssignTaskRequest{Id: "9", Task: "own", Beside: "sl-1"}, ""},
		{"assigns another's", sl, &swarmv1.AssignTaskRequest{Id: "9", Task: "other", Beside: "sl-1"}, "not its own"},
		{"assigns beside another", sl, &swarmv1.AssignTaskRequest{Id: "9", Task: "own", Beside: "sl-2"}, "beside itself alone"},
		{"assigns beside a host", sl, &swarmv1.AssignTaskRequest{Id: "9", Task: "own", Beside: "swop"}, "beside itself alone"},
		{"assigns beside nobody", sl, &swarmv1.AssignTaskRequest{Id: "9", Task: "own"}, "beside itself alone"},
		{"assigns a second one", other, &swarmv1.AssignTaskRequest{Id: "9", Task: "other", Beside: "sl-2"}, "runs already"},
		{"assigns beside itself, of which another has said so", third, &swarmv1.AssignTaskRequest{Id: "9", Task: "new", Beside: "sl-3"}, ""},
		{"assigns the same again", other, &swarmv1.AssignTaskRequest{Id: "8", Task: "other", Beside: "sl-2"}, ""},
		{"cancels", sl, &swarmv1.CancelAssignmentRequest{Id: "7"}, ""},
		{"cancels another's", sl, &swarmv1.CancelAssignmentRequest{Id: "8"}, "assignment 8 is not its own"},
		{"approves", sl, &swarmv1.ApproveTaskRequest{}, "an operator alone may ask for ApproveTask"},
		{"bans", sl, &swarmv1.BanNodeRequest{Name: "sl-2"}, "an operator alone"},
	} {
		method := strings.TrimSuffix(string(tt.m.ProtoReflect().Descriptor().Name()), "Request")
		err := permit.New().Check(s, tt.by, method, tt.m)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if signs := len(permit.Signers(method)) > 0; tt.want == "" && !signs {
			t.Errorf("%s: %s is not taken of SLs", tt.name, method)
		}
	}
}

// TestAnOperatorAssignsBesideNoSL, with rights in the swarm or without, though a sentence gives all: it would keep that SL from its own ranks.
func TestAnOperatorAssignsBesideNoSL(t *testing.T) {
	const by = "spiffe://h.org/swarm/swci"
	for _, given := range []*state.Rights{nil, {Sentences: []string{"Allow spiffe://h.org/swarm/** to manage all-resources"}}} {
		s := state.New()
		s.Rights = given
		err := permit.New().Check(s, by, "AssignTask", &swarmv1.AssignTaskRequest{Id: "9", Task: "own", Beside: "sl-1"})
		if err == nil || !strings.Contains(err.Error(), `SL "sl-1" alone may assign a job beside its own program`) {
			t.Errorf("rights %v: beside an SL: %v", given, err)
		}
		if err := permit.New().Check(s, by, "AssignTask", &swarmv1.AssignTaskRequest{Id: "9", Task: "own"}); err != nil {
			t.Errorf("rights %v: beside none: %v", given, err)
		}
	}
}
