package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/client"
)

// host is a client that has registered as a host of the default taskrunner.
func (s *swarm) host(name string, sns ...string) client.Host {
	s.t.Helper()
	reg := registration(s.t, name)
	reg.Node.Role, reg.Node.Offer = "swop", &task.Offer{Taskrunner: task.DefaultTaskrunner, Peers: 2}
	h := client.Host{Client: s.client("/swarm/swop", nil, sns...)}
	if err := h.Register(s.t.Context(), reg); err != nil {
		s.t.Fatal(err)
	}
	return h
}

// assigned has an operator write a task and hand it to a host.
func (s *swarm) assigned(op client.Tasks, host string) *swarmv1.Assignment {
	s.t.Helper()
	ctx := s.t.Context()
	made := must(op.CreateTask(ctx, &swarmv1.CreateTaskRequest{Name: "pull", Type: task.PullImage, Author: "me", Prereq: task.Root, Outcome: "img:1"}))(s.t)
	if made.GetStatus() != "REGISTERED" {
		s.t.Errorf("made: %v", made)
	}
	must(op.EditTask(ctx, "pull", 1, "Tag: 1"))(s.t)
	read := must(op.GetTask(ctx, "pull"))(s.t)
	final := must(op.FinaliseTask(ctx, "pull", read.GetDigest()))(s.t)
	a := must(op.AssignTask(ctx, &swarmv1.AssignTaskRequest{
		Task: "pull", Digest: final.GetDigest(), Taskrunner: task.DefaultTaskrunner, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(),
		Groups: []*swarmv1.TaskGroup{{Name: "peers", Peers: 1, Least: 1}},
	}))(s.t)
	if !task.ValidID(a.GetId()) {
		s.t.Errorf("its ID is %q", a.GetId())
	}
	must(s.core.Propose(ctx, state.MoveAssignments{AtMS: 5, Moves: []task.Move{
		{Assignment: a.GetId(), Do: task.Place, Members: []task.Placement{{Node: host, Group: "peers", Peers: 1}}},
	}}))(s.t)
	return a
}

// TestAHostFollowsItsAssignments, also when the SN that it follows dies.
func TestAHostFollowsItsAssignments(t *testing.T) {
	s := newSwarm(t, swarmID)
	a, b := s.start("sn-0"), s.start("sn-1")
	s.core.SetLeader("sn-1") // which judges orders, as the last one that started
	h := s.host("h", a.addr)
	op := client.Tasks{By: client.Operator{Client: s.client("/swarm/swci", nil, b.addr)}}
	seen := make(chan []task.Hosted, 100)
	stop := errors.New("seen enough")
	done := make(chan error, 1)
	go func() {
		done <- h.WatchAssignments(t.Context(), func(all []task.Hosted) error {
			seen <- all
			if len(all) == 1 && all[0].Phase == task.Ending {
				return stop
			}
			return nil
		})
	}()
	if first := <-seen; len(first) != 0 {
		t.Fatalf("at first: %+v", first)
	}
	made := s.assigned(op, "h")
	var got []task.Hosted
	for len(got) == 0 {
		got = <-seen
	}
	if got[0].ID != made.GetId() || got[0].Digest != made.GetDigest() || got[0].Order == nil || got[0].Members[0].State != task.Placed {
		t.Errorf("seen: %+v", got)
	}
	a.kill()
	if ended := must(op.CancelAssignment(t.Context(), made.GetId(), "enough"))(t); ended.GetVerdict() != "cancelled" {
		t.Errorf("cancelled: %v", ended)
	}
	if err := <-done; !errors.Is(err, stop) {
		t.Errorf("the watch ended with %v", err)
	}
}

// TestAHostReportsThroughAnSNThatDoesNotLead: what it says of its members is signed, so the leader takes it.
func TestAHostReportsThroughAnSNThatDoesNotLead(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	s.start("sn-1")
	h := s.host("h", a.addr)
	s.core.SetLeader("sn-1")
	members := []task.MemberReport{{Assignment: "7", Epoch: 1, Report: task.Report{Node: "h", State: task.Exited, Code: 3, Text: "no space left", Cleaned: true}}}
	req := &swarmv1.ReportRequest{BansSeen: "none"}
	if res := must(h.Report(t.Context(), req, members))(t); res.GetLeader() != "sn-1" || res.GetLeads() || len(req.GetMembers()) != 0 {
		t.Errorf("answered: %v to %v", res, req)
	}
	must(h.Report(t.Context(), req, nil))(t)
	s.hosts.mu.Lock()
	defer s.hosts.mu.Unlock()
	if len(s.hosts.all) != 2 || len(s.hosts.all[1].Members) != 0 {
		t.Fatalf("heard: %+v", s.hosts.all)
	}
	if got := s.hosts.all[0].Members; len(got) != 1 || len(got[0].Signature) != 88 {
		t.Fatalf("what the ledger is to have is not signed: %+v", got)
	}
	members[0].Signature = s.hosts.all[0].Members[0].Signature // the SN has verified it
	if d := cmp.Diff(members, s.hosts.all[0].Members); d != "" {
		t.Error(d)
	}
	unregistered := client.Host{Client: s.client("/swarm/swop", nil, a.addr)}
	if _, err := unregistered.Report(t.Context(), req, members); err == nil {
		t.Error("who has not registered reports members")
	}
}

// TestOperatorsUseTaskrunners: they are made, listed, shown with what they carry out, reset and deleted.
func TestOperatorsUseTaskrunners(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	s.host("h", a.addr)
	op := client.Tasks{By: client.Operator{Client: s.client("/swarm/swci", nil, a.addr)}}
	ctx := t.Context()
	made := s.assigned(op, "h")
	run := must(op.GetTaskrunner(ctx, task.DefaultTaskrunner))(t)
	if run.GetTaskrunner().GetStatus() != "ASSIGNED" || run.GetAssignment().GetId() != made.GetId() || len(run.GetAssignment().GetMembers()) != 1 {
		t.Errorf("shown: %v", run)
	}
	if tr := must(op.CreateTaskrunner(ctx, "tr"))(t); tr.GetStatus() != "IDLE" {
		t.Errorf("made: %v", tr)
	}
	must(op.ResetTaskrunner(ctx, task.DefaultTaskrunner, "enough"))(t)
	if one := must(op.GetAssignment(ctx, made.GetId()))(t); one.GetVerdict() != "cancelled" || one.GetReason() != "enough" {
		t.Errorf("after the reset: %v", one)
	}
	if all := must(op.ListAssignments(ctx))(t).GetAssignments(); len(all) != 1 {
		t.Errorf("assignments: %v", all)
	}
	if err := op.DeleteTaskrunner(ctx, "tr"); err != nil {
		t.Error(err)
	}
	if all := must(op.ListTaskrunners(ctx))(t); len(all) != 1 {
		t.Errorf("taskrunners: %v", all)
	}
	must(op.CreateTask(ctx, &swarmv1.CreateTaskRequest{Name: "other", Type: task.PullImage, Prereq: task.Root}))(t)
	if err := op.DeleteTask(ctx, "other", false); err != nil {
		t.Error(err)
	}
	if all := must(op.ListTasks(ctx))(t); len(all) != 2 {
		t.Errorf("tasks: %v", all)
	}
	denied := client.Tasks{By: client.Operator{Client: s.client("/swarm/sl", nil, a.addr)}}
	within, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := denied.ListTaskrunners(within); client.Reason(err) != "ROLE_DENIED" {
		t.Errorf("an SL lists taskrunners: %v", err)
	}
}

// TestAHostAsksWhereMembersAre, of one epoch.
func TestAHostAsksWhereMembersAre(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	h := s.host("h", a.addr)
	op := client.Tasks{By: client.Operator{Client: s.client("/swarm/swci", nil, a.addr)}}
	id := s.assigned(op, "h").GetId()
	sites := must(h.World(t.Context(), id, 1))(t)
	if d := cmp.Diff([]task.Site{{Node: "h", Group: "peers", Address: "127.0.0.1"}}, sites); d != "" {
		t.Error(d)
	}
	if _, err := h.World(t.Context(), id, 2); err == nil || err.Error() != "assignment "+id+" is in epoch 1, not in 2" {
		t.Errorf("another epoch: %v", err)
	}
	if sites, err := h.World(t.Context(), "1", 1); err == nil {
		t.Errorf("no assignment: %v", sites)
	}
}
