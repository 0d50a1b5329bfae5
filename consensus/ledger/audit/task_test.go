package audit_test

import (
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
)

// TestRecordsOfTasks: each is held to its order, and to what came before.
func TestRecordsOfTasks(t *testing.T) {
	ca := newAuthority(t)
	op := newOperator(t, ca)
	digest := strings.Repeat("d", 64)
	final := func(b *builder, name, asked string) ledger.FinalTask {
		return ledger.FinalTask{Task: name, Digest: digest, Order: op.asks(b, &swarmv1.FinaliseTaskRequest{Name: name, Digest: asked})}
	}
	assigned := func(id string) ledger.Assigned {
		return ledger.Assigned{Assignment: id, Task: "pull", Digest: digest, Taskrunner: "tr", By: op.id}
	}
	asked := func(b *builder, id string, change func(*swarmv1.AssignTaskRequest)) ledger.Assigned {
		r := &swarmv1.AssignTaskRequest{Id: id, Task: "pull", Digest: digest, Taskrunner: "tr"}
		if change != nil {
			change(r)
		}
		a := assigned(id)
		a.Order = op.asks(b, r)
		return a
	}
	grouped := func(b *builder, change func(*ledger.Assigned)) ledger.Assigned {
		a := asked(b, "7", func(r *swarmv1.AssignTaskRequest) {
			r.Groups, r.TimeoutMs, r.ExpiresUnixMs = []*swarmv1.TaskGroup{{Name: "peers", Peers: 2, Least: 2}}, 5, 9
		})
		a.Groups, a.TimeoutMS, a.ExpiresMS = []ledger.Group{{Name: "peers", Peers: 2, Least: 2}}, 5, 9
		if change != nil {
			change(&a)
		}
		return a
	}
	job := func(b *builder, lie func(*ledger.Assigned)) ledger.Assigned {
		a := asked(b, "7", func(r *swarmv1.AssignTaskRequest) {
			r.Groups, r.Done, r.ReadyMs, r.LivesMs, r.Together, r.GraceMs, r.Stops = []*swarmv1.TaskGroup{{Name: "peers", Peers: 2, Least: 2, Needs: &swarmv1.Needs{MilliCpu: 1, MemoryBytes: 2, Gpus: 3, DiskBytes: 4}, Ports: []uint32{5}}}, "main", 5, 6, true, 7, true
		})
		a.Groups, a.JobTerms = []ledger.Group{{Name: "peers", Peers: 2, Least: 2, Needs: ledger.Needs{MilliCPU: 1, Memory: 2, GPUs: 3, Disk: 4}, Ports: []uint32{5}}}, ledger.JobTerms{Done: "main", ReadyMS: 5, LivesMS: 6, Together: true, GraceMS: 7, Stops: true}
		if lie != nil {
			lie(&a)
		}
		return a
	}
	bob, sl := svidOf(t, ca, "swci/bob"), svidOf(t, ca, "sl/sl-1")
	beside := func(b *builder, name string) ledger.Assigned {
		r := &swarmv1.AssignTaskRequest{Id: "7", Task: "pull", Digest: digest, Hosts: []string{"h-0"}, Beside: name}
		return ledger.Assigned{Assignment: "7", Task: "pull", Digest: digest, Hosts: r.GetHosts(), By: sl.id, JobTerms: ledger.JobTerms{Beside: name}, Order: sl.asks(b, r)}
	}
	approving := func() *swarmv1.ApproveTaskRequest {
		return &swarmv1.ApproveTaskRequest{Part: &swarmv1.PartOfHost{Assignment: "7", Task: "pull", Digest: digest, Taskrunner: "tr", Host: "h-0"}}
	}
	says := func(b *builder, change func(*ledger.Approval)) {
		b.add(final(b, "pull", ""))
		b.add(asked(b, "7", nil))
		a := ledger.Approval{Assignment: "7", Task: "pull", Digest: digest, Host: "h-0", By: bob.id, Order: bob.asks(b, approving())}
		if change != nil {
			change(&a)
		}
		b.add(a)
	}
	refusal := func(b *builder, reason string) ledger.Approval {
		r := &swarmv1.RefuseTaskRequest{Part: approving().GetPart(), Reason: reason}
		return ledger.Approval{Assignment: "7", Task: "pull", Digest: digest, Host: "h-0", Refused: true, Reason: "not today", By: bob.id, Order: bob.asks(b, r)}
	}
	for name, tt := range map[string]struct {
		want string // empty: it is good
		add  func(b *builder)
	}{
		"finalised":                {"", func(b *builder) { b.add(final(b, "pull", "")) }},
		"finalised by its digest":  {"", func(b *builder) { b.add(final(b, "pull", digest)) }},
		"finalised by another":     {"the operator asked to finalise task", func(b *builder) { b.add(final(b, "pull", strings.Repeat("e", 64))) }},
		"finalised and not made":   {"no record before has made", func(b *builder) { b.add(final(b, "other", "")) }},
		"finalised twice":          {"was finalised before", func(b *builder) { b.add(final(b, "pull", "")); b.add(final(b, "pull", "")) }},
		"finalised, nobody signed": {"order: it is missing", func(b *builder) { b.add(ledger.FinalTask{Task: "pull", Digest: digest}) }},
		"made twice": {"was made before", func(b *builder) {
			b.add(ledger.Task{Task: "pull", Type: "RUN_SWARM", By: op.id, Order: op.asks(b, &swarmv1.CreateTaskRequest{Name: "pull", Type: "RUN_SWARM"})})
		}},
		"made of another type": {"asked for task", func(b *builder) {
			b.add(ledger.Task{Task: "x", Type: "RUN_SWARM", By: op.id, Order: op.asks(b, &swarmv1.CreateTaskRequest{Name: "x", Type: "PULL_IMAGE"})})
		}},
		"assigned with groups": {"", func(b *builder) { b.add(final(b, "pull", "")); b.add(grouped(b, nil)) }},
		"assigned with fewer who must succeed": {"asked for assignment", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(grouped(b, func(a *ledger.Assigned) { a.Groups[0].Least = 1 }))
		}},
		"assigned for longer": {"asked for assignment", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(grouped(b, func(a *ledger.Assigned) { a.ExpiresMS++ }))
		}},
		"assigned with retries": {"asked for assignment", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(grouped(b, func(a *ledger.Assigned) { a.Retries++ }))
		}},
		"assigned to live longer": {"asked for a job with the terms \"{main 5 6 true 7 true }\"", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(job(b, func(a *ledger.Assigned) { a.LivesMS++ }))
		}},
		"assigned beside an SL by that": {"", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(beside(b, "sl-1"))
		}},
		"assigned beside an SL by another": {"may not ask for this", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(beside(b, "sl-2"))
		}},
		"assigned by an SL beside nobody": {"may not ask for this", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(beside(b, ""))
		}},
		"assigned beside an SL by an operator": {"may not ask for this", func(b *builder) {
			b.add(final(b, "pull", ""))
			a := asked(b, "7", func(r *swarmv1.AssignTaskRequest) { r.Beside = "sl-1" })
			a.Beside = "sl-1"
			b.add(a)
		}},
		"another task, made by an SL": {"may not ask for this", func(b *builder) {
			b.add(ledger.Task{Task: "x", Type: "PULL_IMAGE", By: sl.id, Order: sl.asks(b, &swarmv1.CreateTaskRequest{Name: "x", Type: "PULL_IMAGE"})})
		}},
		"a job, made by an SL": {"", func(b *builder) {
			b.add(ledger.Task{Task: "x", Type: "RUN_JOB", By: sl.id, Order: sl.asks(b, &swarmv1.CreateTaskRequest{Name: "x", Type: "RUN_JOB"})})
		}},
		"finalised by an SL that made it not": {"it is of spiffe://", func(b *builder) {
			b.add(ledger.FinalTask{Task: "pull", Digest: digest, Order: sl.asks(b, &swarmv1.FinaliseTaskRequest{Name: "pull"})})
		}},
		"deleted by an SL that made it not": {"it is of spiffe://", func(b *builder) {
			b.add(ledger.DeletedTask{Task: "pull", Order: sl.asks(b, &swarmv1.DeleteTaskRequest{Name: "pull"})})
		}},
		"cancelled by an SL that asked not for it": {"it is of spiffe://", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(asked(b, "7", nil))
			b.add(ledger.EndedAssignment{Assignment: "7", Task: "pull", Digest: digest, Verdict: "cancelled", Order: sl.asks(b, &swarmv1.CancelAssignmentRequest{Id: "7"})})
		}},
		"an SL finalises, cancels and deletes its own": {"", func(b *builder) {
			b.add(ledger.Task{Task: "x", Type: "RUN_JOB", By: sl.id, Order: sl.asks(b, &swarmv1.CreateTaskRequest{Name: "x", Type: "RUN_JOB"})})
			b.add(ledger.FinalTask{Task: "x", Digest: digest, Order: sl.asks(b, &swarmv1.FinaliseTaskRequest{Name: "x"})})
			r := &swarmv1.AssignTaskRequest{Id: "7", Task: "x", Digest: digest, Hosts: []string{"h-0"}, Beside: "sl-1"}
			b.add(ledger.Assigned{Assignment: "7", Task: "x", Digest: digest, Hosts: r.GetHosts(), By: sl.id, JobTerms: ledger.JobTerms{Beside: "sl-1"}, Order: sl.asks(b, r)})
			b.add(ledger.EndedAssignment{Assignment: "7", Task: "x", Digest: digest, Verdict: "cancelled", End: "cancelled", Order: sl.asks(b, &swarmv1.CancelAssignmentRequest{Id: "7"})})
			b.add(ledger.DeletedTask{Task: "x", Digest: digest, Order: sl.asks(b, &swarmv1.DeleteTaskRequest{Name: "x", Force: true})})
		}},
		"assigned as a job": {"", func(b *builder) { b.add(final(b, "pull", "")); b.add(job(b, nil)) }},
		"assigned as a job of none": {"asked for a job with", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(job(b, func(a *ledger.Assigned) { a.JobTerms = ledger.JobTerms{} }))
		}},
		"deleted": {"", func(b *builder) {
			b.add(ledger.DeletedTask{Task: "pull", Order: op.asks(b, &swarmv1.DeleteTaskRequest{Name: "pull"})})
		}},
		"deleted without force": {"by force: false", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(ledger.DeletedTask{Task: "pull", Digest: digest, Order: op.asks(b, &swarmv1.DeleteTaskRequest{Name: "pull"})})
		}},
		"another is deleted": {"asked to delete", func(b *builder) {
			b.add(ledger.DeletedTask{Task: "pull", Order: op.asks(b, &swarmv1.DeleteTaskRequest{Name: "x"})})
		}},
		"assigned": {"", func(b *builder) { b.add(final(b, "pull", "")); b.add(asked(b, "7", nil)) }},
		"assigned otherwise": {"asked for assignment \"8\"", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(asked(b, "7", func(r *swarmv1.AssignTaskRequest) { r.Id = "8" }))
		}},
		"assigned to others": {"hosts [\"h-1\"]", func(b *builder) {
			b.add(final(b, "pull", ""))
			b.add(asked(b, "7", func(r *swarmv1.AssignTaskRequest) { r.Hosts = []string{"h-1"} }))
		}},
		"approved":          {"", func(b *builder) { says(b, nil) }},
		"refused":           {"", func(b *builder) { says(b, nil); b.add(refusal(b, "not today")) }},
		"refused otherwise": {"for the reason \"\"", func(b *builder) { says(b, nil); b.add(refusal(b, "")) }},
		"approved by who asked": {"can't approve or refuse it", func(b *builder) {
			says(b, func(a *ledger.Approval) { a.By, a.Order = op.id, op.asks(b, approving()) })
		}},
		"approved for another host": {"signed for assignment", func(b *builder) { says(b, func(a *ledger.Approval) { a.Host = "h-1" }) }},
		"approved for another taskrunner": {"signed for taskrunner \"x\"", func(b *builder) {
			says(b, func(a *ledger.Approval) {
				r := approving()
				r.Part.Taskrunner = "x"
				a.Order = bob.asks(b, r)
			})
		}},
		"approved on a host that was not asked": {"is for hosts [\"h-1\"]", func(b *builder) {
			b.add(final(b, "pull", ""))
			a := asked(b, "7", func(r *swarmv1.AssignTaskRequest) { r.Hosts = []string{"h-1"} })
			a.Hosts = []string{"h-1"}
			b.add(a)
			b.add(ledger.Approval{Assignment: "7", Task: "pull", Digest: digest, Host: "h-0", By: bob.id, Order: bob.asks(b, approving())})
		}},
		"approved and not assigned": {"was not made", func(b *builder) { says(b, func(a *ledger.Approval) { a.Assignment = "8" }) }},
		"another task is approved":  {"is of another task", func(b *builder) { says(b, func(a *ledger.Approval) { a.Digest = "" }) }},
		"approved, nobody signed":   {"order: it is missing", func(b *builder) { says(b, func(a *ledger.Approval) { a.Order = nil }) }},
		"a refusal as an approval":  {"order.method", func(b *builder) { says(b, func(a *ledger.Approval) { a.Refused = true }) }},
		"cancelled": {"", func(b *builder) {
			says(b, nil)
			b.add(ledger.EndedAssignment{Assignment: "7", Task: "pull", Digest: digest, Verdict: "cancelled", Order: op.asks(b, &swarmv1.CancelAssignmentRequest{Id: "7"})})
		}},
		"another is cancelled": {"cancelled assignment \"8\"", func(b *builder) {
			says(b, nil)
			b.add(ledger.EndedAssignment{Assignment: "7", Task: "pull", Digest: digest, Verdict: "cancelled", Order: op.asks(b, &swarmv1.CancelAssignmentRequest{Id: "8"})})
		}},
		"reset": {"", func(b *builder) {
			says(b, nil)
			b.add(ledger.EndedAssignment{Assignment: "7", Task: "pull", Digest: digest, Verdict: "cancelled", Order: op.asks(b, &swarmv1.ResetTaskrunnerRequest{Name: "tr"})})
		}},
		"another is reset": {"reset taskrunner \"x\"", func(b *builder) {
			says(b, nil)
			b.add(ledger.EndedAssignment{Assignment: "7", Task: "pull", Digest: digest, Verdict: "cancelled", Order: op.asks(b, &swarmv1.ResetTaskrunnerRequest{Name: "x"})})
		}},
		"assigned, nobody signed": {"order: it is missing", func(b *builder) { b.add(final(b, "pull", "")); b.add(assigned("7")) }},
		"assigned by another method": {"order.method", func(b *builder) {
			b.add(final(b, "pull", ""))
			a := assigned("7")
			a.Order = op.asks(b, &swarmv1.DeleteTaskRequest{Name: "pull"})
			b.add(a)
		}},
		"assigned and not finalised": {"was not finalised with this digest", func(b *builder) { b.add(assigned("7")) }},
		"ended and not made":         {"was not made", func(b *builder) { b.add(ledger.EndedAssignment{Assignment: "7", Task: "pull", Verdict: "failed"}) }},
		"unknown verdict":            {`"good" is none`, func(b *builder) { b.add(ledger.EndedAssignment{Assignment: "7", Task: "pull", Verdict: "good"}) }},
		"cancelled, nobody signed":   {"order: it is missing", func(b *builder) { b.add(ledger.EndedAssignment{Assignment: "7", Task: "pull", Verdict: "cancelled"}) }},
		"a verdict that nobody orders": {"operators give no verdict", func(b *builder) {
			b.add(ledger.EndedAssignment{Assignment: "7", Verdict: "failed", Order: op.asks(b, &swarmv1.DeleteTaskRequest{Name: "pull"})})
		}},
	} {
		b := &builder{t: t}
		b.add(ledger.Swarm{SwarmID: swarmID})
		b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
		b.add(ledger.Task{Task: "pull", Type: "PULL_IMAGE", By: op.id, Order: op.asks(b, &swarmv1.CreateTaskRequest{Name: "pull", Type: "PULL_IMAGE"})})
		tt.add(b)
		r := verify(t, b.bytes, optionsOf(ca))
		found := ""
		for _, p := range r.Problems {
			found += p.Field + ": " + p.What + "\n"
		}
		if tt.want == "" && found != "" || !strings.Contains(found, tt.want) {
			t.Errorf("%s: found %q, want %q", name, found, tt.want)
		}
	}
}
