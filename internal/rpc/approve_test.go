package rpc_test

import (
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
)

func approving(id, digest, host string) *swarmv1.ApproveTaskRequest {
	return &swarmv1.ApproveTaskRequest{Part: &swarmv1.PartOfHost{
		Assignment: id, Task: "pull", Digest: digest, Taskrunner: task.DefaultTaskrunner, Host: host, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(),
	}}
}

// TestOperatorsApproveAndRefuse: what an operator signs on a host that waits shows in the assignment, and reaches that host as it was signed.
func TestOperatorsApproveAndRefuse(t *testing.T) {
	s := newSwarm(t)
	ann, bob := s.as("/swarm/swci/ann"), s.as("/swarm/swci/bob")
	digest := ann.finalised(t, "pull")
	must(ann.tasks().AssignTask(t.Context(), signed(ann, assigning("7", digest))))(t)
	_, err := bob.tasks().ApproveTask(t.Context(), signed(bob, approving("7", digest, "h")))
	wantReason(t, "where nothing waits", err, "STALE_TASK")
	h := s.host(t, "h", nodeKey(t))
	s.place(t, "7", "h")
	yes := signed(bob, approving("7", digest, "h"))
	a := must(bob.tasks().ApproveTask(t.Context(), yes))(t).Msg.GetAssignment().GetApprovals()
	if len(a) != 1 || a[0].GetHost() != "h" || a[0].GetBy() != "spiffe://hospital.example/swarm/swci/bob" || a[0].GetRefused() || a[0].GetAtUnixMs() == 0 {
		t.Errorf("approved: %v", a)
	}
	eve := s.as("/swarm/swci/eve")
	no := signed(eve, &swarmv1.RefuseTaskRequest{Part: approving("7", digest, "h").GetPart(), Reason: "not today"})
	must(eve.tasks().RefuseTask(t.Context(), no))(t)
	a = must(bob.tasks().GetAssignment(t.Context(), with(bob, &swarmv1.GetAssignmentRequest{Id: "7"})))(t).Msg.GetAssignment().GetApprovals()
	if len(a) != 2 || !a[1].GetRefused() || a[1].GetReason() != "not today" {
		t.Errorf("refused: %v", a)
	}
	stream := must(h.tasks().WatchAssignments(t.Context(), with(h, &swarmv1.WatchAssignmentsRequest{})))(t)
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	all, err := onwire.FromHosted(stream.Msg().GetAssignments())
	if err != nil || len(all) != 1 || len(all[0].Approvals) != 2 {
		t.Fatalf("the host sees %+v: %v", all, err)
	}
	for i, want := range []struct{ method, request string }{
		{"ApproveTask", string(yes.Msg.GetOrder().GetRequest())}, {"RefuseTask", string(no.Msg.GetOrder().GetRequest())},
	} {
		if o := all[0].Approvals[i].Order; o.Method != want.method || string(o.Request) != want.request || len(o.Chain) == 0 {
			t.Errorf("word %d reached the host as %s %s", i, o.Method, o.Request)
		}
	}
}

// TestWordsThatAreRefused: who may not approve, and what no host could go by.
func TestWordsThatAreRefused(t *testing.T) {
	s := newSwarm(t)
	ann, bob := s.as("/swarm/swci/ann"), s.as("/swarm/swci/bob")
	digest := ann.finalised(t, "pull")
	must(ann.tasks().AssignTask(t.Context(), signed(ann, assigning("7", digest))))(t)
	s.host(t, "h", nodeKey(t))
	s.place(t, "7", "h")
	_, err := ann.tasks().ApproveTask(t.Context(), signed(ann, approving("7", digest, "h")))
	wantReason(t, "by who asked for it", err, "BAD_COMMAND")
	_, err = bob.tasks().ApproveTask(t.Context(), with(bob, approving("7", digest, "h")))
	wantReason(t, "unsigned", err, "ORDER_MISSING")
	for _, role := range []string{"sn", "sl", "swop", "audit"} {
		who := s.as("/swarm/" + role)
		_, err := who.tasks().ApproveTask(t.Context(), signed(who, approving("7", digest, "h")))
		wantReason(t, "by the role "+role, err, "ROLE_DENIED")
	}
	for want, changes := range map[string]map[string]func(r *swarmv1.PartOfHost){
		"BAD_COMMAND": {
			"no end": func(r *swarmv1.PartOfHost) { r.ExpiresUnixMs = 0 },
			"late":   func(r *swarmv1.PartOfHost) { r.ExpiresUnixMs = 1 },
			"a year": func(r *swarmv1.PartOfHost) { r.ExpiresUnixMs += 365 * 24 * 3600 * 1000 },
		},
		"STALE_TASK":   {"another digest": func(r *swarmv1.PartOfHost) { r.Digest = strings.Repeat("0", 64) }, "another host": func(r *swarmv1.PartOfHost) { r.Host = "x" }},
		"TASK_UNKNOWN": {"another taskrunner": func(r *swarmv1.PartOfHost) { r.Taskrunner = "tr" }, "another ID": func(r *swarmv1.PartOfHost) { r.Assignment = "8" }},
	} {
		for what, change := range changes {
			r := approving("7", digest, "h")
			change(r.GetPart())
			_, err := bob.tasks().ApproveTask(t.Context(), signed(bob, r))
			wantReason(t, what, err, want)
			_, err = bob.tasks().RefuseTask(t.Context(), signed(bob, &swarmv1.RefuseTaskRequest{Part: r.GetPart()}))
			wantReason(t, what+", refused", err, want)
		}
	}
}
