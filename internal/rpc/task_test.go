package rpc_test

import (
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
)

func (p *peer) tasks() swarmv1connect.TaskServiceClient {
	return swarmv1connect.NewTaskServiceClient(p.http, p.url())
}

func pulling(name string) *swarmv1.CreateTaskRequest {
	return &swarmv1.CreateTaskRequest{Name: name, Type: task.PullImage, Author: "me", Prereq: task.Root, Outcome: "img:1"}
}

// TestTasksAreWritten: operators make, write, read, finalise and delete tasks, each under their signature; the ledger has the digest.
func TestTasksAreWritten(t *testing.T) {
	s := newSwarm(t)
	must(s.core.Propose(t.Context(), state.RecordBundle{TrustDomain: "hospital.example", Certificates: [][]byte{{1}}, AtMS: 1}))(t)
	p := s.as("/swarm/swci/admin")
	made := must(p.tasks().CreateTask(t.Context(), signed(p, pulling("pull"))))(t).Msg.GetTask()
	if made.GetStatus() != "REGISTERED" || made.GetBy() != "spiffe://hospital.example/swarm/swci/admin" || made.GetDigest() != "" || made.GetCreatedUnixMs() == 0 {
		t.Errorf("made: %v", made)
	}
	must(p.tasks().EditTask(t.Context(), signed(p, &swarmv1.EditTaskRequest{Name: "pull", Line: 1, Text: "Tag: 1\nAuth: null"})))(t)
	must(p.tasks().EditTask(t.Context(), signed(p, &swarmv1.EditTaskRequest{Name: "pull", Line: 1, Text: "Tag: \"<2>\"\n"})))(t)
	read := must(s.as("/swarm/audit").tasks().GetTask(t.Context(), with(p, &swarmv1.GetTaskRequest{Name: "pull"})))(t).Msg
	if string(read.GetDefinition()) != "Tag: \"<2>\"\nAuth: null\n" || len(read.GetDigest()) != 64 || read.GetTask().GetBytes() != 22 {
		t.Errorf("read: %v", read)
	}
	_, err := p.tasks().FinaliseTask(t.Context(), signed(p, &swarmv1.FinaliseTaskRequest{Name: "pull", Digest: strings.Repeat("0", 64)}))
	wantReason(t, "finalise another", err, "STALE_TASK")
	final := must(p.tasks().FinaliseTask(t.Context(), signed(p, &swarmv1.FinaliseTaskRequest{Name: "pull", Digest: read.GetDigest()})))(t).Msg.GetTask()
	if final.GetStatus() != "FINALIZED" || final.GetDigest() != read.GetDigest() || final.GetFinalisedUnixMs() == 0 {
		t.Errorf("finalised: %v", final)
	}
	all := must(p.tasks().ListTasks(t.Context(), with(p, &swarmv1.ListTasksRequest{})))(t).Msg.GetTasks()
	if len(all) != 2 || all[0].GetName() != "ROOTTASK" || all[0].GetType() != "ROOT_TASK" || all[0].GetAuthor() != "HPE" || all[1].GetName() != "pull" {
		t.Errorf("listed: %v", all)
	}
	must(p.tasks().DeleteTask(t.Context(), signed(p, &swarmv1.DeleteTaskRequest{Name: "pull", Force: true})))(t)
	var kinds []string
	for _, line := range s.core.Records() {
		r, body, err := ledger.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := body.(ledger.FinalTask); ok && (f.Digest != read.GetDigest() || f.Order.By != "spiffe://hospital.example/swarm/swci/admin") {
			t.Errorf("recorded: %+v", f)
		}
		if strings.HasSuffix(r.Kind, "task") {
			kinds = append(kinds, r.Kind)
		}
	}
	if got := strings.Join(kinds, " "); got != "task final_task deleted_task" {
		t.Errorf("recorded: %s", got)
	}
}

// TestTasksThatAreRefused have a reason each.
func TestTasksThatAreRefused(t *testing.T) {
	s := newSwarm(t)
	p, sl := s.as("/swarm/swci/admin"), s.as("/swarm/sl")
	_, err := p.tasks().CreateTask(t.Context(), with(p, pulling("pull")))
	wantReason(t, "unsigned", err, "ORDER_MISSING")
	_, err = sl.tasks().CreateTask(t.Context(), with(sl, pulling("pull")))
	wantReason(t, "by an SL, unsigned", err, "ORDER_MISSING")
	_, err = sl.tasks().ListTaskrunners(t.Context(), with(sl, &swarmv1.ListTaskrunnersRequest{}))
	wantReason(t, "listed by an SL", err, "ROLE_DENIED")
	for name, change := range map[string]func(r *swarmv1.CreateTaskRequest){
		"BAD_COMMAND": func(r *swarmv1.CreateTaskRequest) { r.Type = "BUILD_SWARM" }, "TASK_UNKNOWN": func(r *swarmv1.CreateTaskRequest) { r.Prereq = "other" },
		"TASK_TAKEN": func(r *swarmv1.CreateTaskRequest) { r.Name = "ROOTTASK" },
	} {
		r := pulling("pull")
		change(r)
		_, err := p.tasks().CreateTask(t.Context(), signed(p, r))
		wantReason(t, "create", err, name)
	}
	must(p.tasks().CreateTask(t.Context(), signed(p, pulling("pull"))))(t)
	_, err = p.tasks().FinaliseTask(t.Context(), signed(p, &swarmv1.FinaliseTaskRequest{Name: "pull"}))
	wantReason(t, "finalise an empty one", err, "TASK_OPEN")
	_, err = p.tasks().EditTask(t.Context(), signed(p, &swarmv1.EditTaskRequest{Name: "pull", Line: 2, Text: "x"}))
	wantReason(t, "skip a line", err, "BAD_COMMAND")
	_, err = p.tasks().GetTask(t.Context(), with(p, &swarmv1.GetTaskRequest{Name: "other"}))
	wantReason(t, "read another", err, "TASK_UNKNOWN")
}

// TestTaskrunnersAreNamed by operators; the default one is always there.
func TestTaskrunnersAreNamed(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci/admin")
	for range 2 {
		r := must(p.tasks().CreateTaskrunner(t.Context(), signed(p, &swarmv1.CreateTaskrunnerRequest{Name: "tr"})))(t).Msg.GetTaskrunner()
		if r.GetName() != "tr" || r.GetStatus() != "IDLE" || r.GetCreatedUnixMs() == 0 {
			t.Errorf("made: %v", r)
		}
	}
	all := must(p.tasks().ListTaskrunners(t.Context(), with(p, &swarmv1.ListTaskrunnersRequest{})))(t).Msg.GetTaskrunners()
	if len(all) != 2 || all[0].GetName() != task.DefaultTaskrunner || all[1].GetName() != "tr" {
		t.Errorf("listed: %v", all)
	}
	_, err := p.tasks().DeleteTaskrunner(t.Context(), signed(p, &swarmv1.DeleteTaskrunnerRequest{Name: task.DefaultTaskrunner}))
	wantReason(t, "delete the default one", err, "TASK_IN_USE")
	for range 2 {
		must(p.tasks().DeleteTaskrunner(t.Context(), signed(p, &swarmv1.DeleteTaskrunnerRequest{Name: "tr"})))(t)
	}
}
