package tasks_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/rpc/tasks"
)

// TestEverySignedRequestIsACommand: each method of the service whose request has an order is one that operators sign, and becomes a command
// that carries the order.
func TestEverySignedRequestIsACommand(t *testing.T) {
	asked := map[protoreflect.FullName]tasks.Asking{}
	for _, m := range tasks.Asked() {
		asked[m.ProtoReflect().Descriptor().FullName()] = m
	}
	methods := swarmv1.File_api_swarm_v1_swarm_proto.Services().ByName("TaskService").Methods()
	signed := 0
	for i := range methods.Len() {
		in := methods.Get(i).Input()
		if in.Fields().ByName("order") == nil {
			continue
		}
		signed++
		m := asked[in.FullName()]
		if m == nil {
			t.Errorf("%s is signed, and not asked for", in.FullName())
			continue
		}
		switch m := m.(type) {
		case *swarmv1.AssignTaskRequest:
			m.Digest, m.ExpiresUnixMs = strings.Repeat("d", 64), 8
		case *swarmv1.ApproveTaskRequest:
			m.Part = &swarmv1.PartOfHost{ExpiresUnixMs: 8}
		case *swarmv1.RefuseTaskRequest:
			m.Part = &swarmv1.PartOfHost{ExpiresUnixMs: 8}
		}
		o := &ledger.Order{By: "spiffe://hospital.example/swarm/swci/admin"}
		made, err := tasks.Command(state.New(), m, o, 7)
		c, ok := made.(state.Ordered)
		if !ok || err != nil || c.OrderOf() != o {
			t.Errorf("%s becomes %v: %v", in.FullName(), made, err)
			continue
		}
		if name := strings.ReplaceAll(c.Type(), "_", ""); !strings.EqualFold(name+"Request", string(in.Name())) {
			t.Errorf("%s becomes %s", in.FullName(), c.Type())
		}
	}
	if signed == 0 || signed != len(asked) {
		t.Errorf("%d requests are signed, %d are asked for", signed, len(asked))
	}
	if c, err := tasks.Command(state.New(), &swarmv1.BanNodeRequest{}, &ledger.Order{}, 7); c != nil || err != nil {
		t.Errorf("the ban of a node becomes %v: %v", c, err)
	}
}

// TestTypesOfTasks: a job's entry says that there are jobs, and those of other tasks keep the form that they had.
func TestTypesOfTasks(t *testing.T) {
	for taskType, jobs := range map[string]bool{task.RunJob: true, task.RunSwarm: false, task.PullImage: false, "": false} {
		made, err := tasks.Command(state.New(), &swarmv1.CreateTaskRequest{Name: "a", Type: taskType}, &ledger.Order{}, 7)
		if c, ok := made.(state.CreateTask); !ok || err != nil || c.TaskType != taskType || c.Jobs != jobs {
			t.Errorf("a task of type %q becomes %+v: %v", taskType, made, err)
		}
	}
}

// TestAssignTaskKeepsAllThatWasSigned: every field reaches the command, and those that hosts go by must be given.
func TestAssignTaskKeepsAllThatWasSigned(t *testing.T) {
	asked := func() *swarmv1.AssignTaskRequest {
		return &swarmv1.AssignTaskRequest{
			Id: "7", Task: "pull", Digest: strings.Repeat("d", 64), Taskrunner: "tr", Hosts: []string{"h-1", "h-2"},
			Groups:  []*swarmv1.TaskGroup{{Name: "all", Peers: 2, Least: 1}},
			InOrder: true, Retries: 3, TimeoutMs: 4000, ExpiresUnixMs: 5000, Joins: "6",
			Done: task.DoneAny, ReadyMs: 6000, LivesMs: 7000, Together: true, GraceMs: 8000, Stops: true, Beside: "sl-1",
		}
	}
	rpctest.Full(t, asked(), "order")
	o := &ledger.Order{By: "spiffe://hospital.example/swarm/swci/admin"}
	got, err := tasks.Command(state.New(), asked(), o, 6)
	if err != nil {
		t.Fatal(err)
	}
	want := state.AssignTask{Assignment: task.Request{
		ID: "7", Task: "pull", Digest: strings.Repeat("d", 64), Taskrunner: "tr", Hosts: []string{"h-1", "h-2"}, Groups: []task.Group{{Name: "all", Peers: 2, Least: 1}},
		InOrder: true, Retries: 3, TimeoutMS: 4000, ExpiresMS: 5000, By: o.By, Joins: "6", JobTerms: task.JobTerms{Done: task.DoneAny, ReadyMS: 6000, LivesMS: 7000, Together: true, GraceMS: 8000, Stops: true, Beside: "sl-1"},
	}, AtMS: 6, Order: o, Whole: true, Detailed: true, Strict: true, ExitsCount: true}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for want, change := range map[string]func(r *swarmv1.AssignTaskRequest){
		"the digest of task": func(r *swarmv1.AssignTaskRequest) { r.Digest = "" },
		"never expires":      func(r *swarmv1.AssignTaskRequest) { r.ExpiresUnixMs = 0 },
		"it expired 2ms ago": func(r *swarmv1.AssignTaskRequest) { r.ExpiresUnixMs = 4 },
		"it never expires":   func(r *swarmv1.AssignTaskRequest) { r.ExpiresUnixMs = -1 },
	} {
		r := asked()
		change(r)
		if _, err := tasks.Command(state.New(), r, o, 6); state.ReasonOf(err) != state.ReasonBadCommand || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// TestExitsCountIsInEntriesOfOraclesJobs: those of other jobs keep the form that they had, which SNs of before read.
func TestExitsCountIsInEntriesOfOraclesJobs(t *testing.T) {
	s := state.New()
	do := func(c state.Command) {
		t.Helper()
		next, _, err := s.Apply(c)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	do(state.InitSwarm{SwarmID: "s", AtMS: 1})
	for name, line := range map[string]string{"oci": "compat: oci", "other": "name: other"} {
		do(state.CreateTask{Task: name, TaskType: task.RunJob, Prereq: task.Root, Jobs: true})
		do(state.EditTask{Task: name, Line: 1, Text: []byte(line)})
		do(state.FinaliseTask{Task: name})
	}
	for name, want := range map[string]bool{"oci": true, "other": false, "unknown": true} {
		for _, stops := range []bool{true, false} {
			r := &swarmv1.AssignTaskRequest{Id: "7", Task: name, Digest: strings.Repeat("d", 64), ExpiresUnixMs: 8, Stops: stops}
			made, err := tasks.Command(s, r, &ledger.Order{}, 7)
			if c, is := made.(state.AssignTask); err != nil || !is || c.ExitsCount != (want && stops) {
				t.Errorf("%s, stops: %v: %+v, %v", name, stops, made, err)
			}
		}
	}
}
