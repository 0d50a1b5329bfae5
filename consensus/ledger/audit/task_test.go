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
