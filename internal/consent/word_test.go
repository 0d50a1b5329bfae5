package consent_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

const waits = "waits for approval: swarmctl approve task pull on swop-0"

// asks is an owner who wants to be asked.
func (w *world) asks() {
	w.policy.Verdict = consent.Verdict{Decision: consent.Asked, Sentence: "ask: true"}
}

// word is one on the part of this host in assignment 7.
func word() *swarmv1.ApproveTaskRequest {
	return &swarmv1.ApproveTaskRequest{Part: &swarmv1.PartOfHost{
		Assignment: "7", Task: "pull", Digest: pull().Digest, Taskrunner: "tr", Host: host, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(),
	}}
}

// refusal is one that refuses it.
func refusal(reason string) *swarmv1.RefuseTaskRequest {
	return &swarmv1.RefuseTaskRequest{Part: word().GetPart(), Reason: reason}
}

// says is what an honest SN shows of a word.
func (w *world) says(by, method string, m proto.Message) task.Approval {
	w.t.Helper()
	return task.Approval{Number: 1, Host: host, By: "spiffe://a.example" + by, Order: w.order(w.svid(by), swarmID, method, m)}
}

// TestApproval: it begins once an approver of the owner's has said so, and goes on whatever becomes of the approver.
func TestApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.asks()
		g, h := w.guard(), w.assigned(request(), ann)
		if got, want := g.Ask(t.Context(), h, pull()), (consent.Answer{Decision: consent.Asked, Words: waits}); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
		time.Sleep(3 * time.Hour) // ann's SVID has ended
		h.Approvals = []task.Approval{w.says(bob, "ApproveTask", word())}
		g = w.guard()
		for range 2 {
			if got := g.Ask(t.Context(), h, pull()); got != (consent.Answer{Decision: consent.Allowed}) {
				t.Fatal(got)
			}
		}
		e, _ := w.journal.Find("7")
		if e.Decision != consent.Approved || e.Approver != "spiffe://a.example"+bob || e.Sentence != "ask: true" || e.By != "spiffe://a.example"+ann || e.Epoch != 1 {
			t.Errorf("the journal has %+v", e)
		}
		time.Sleep(3 * time.Hour) // bob's has, and so has the approval
		h.Approvals, h.Epoch = nil, 2
		if err := g.Ended("7", 1, "stopped"); err != nil {
			t.Fatal(err)
		}
		if got := w.guard().Ask(t.Context(), h, pull()); got.Decision != consent.Allowed {
			t.Errorf("the next placement: %v", got)
		}
	})
}

// TestRefusal: it stands, whoever approves and whatever the policy allows.
func TestRefusal(t *testing.T) {
	for _, says := range []consent.Decision{consent.Asked, consent.Allowed} {
		w := newWorld(t)
		w.policy.Decision = says
		h := w.assigned(request(), ann)
		h.Approvals = []task.Approval{w.says(bob, "ApproveTask", word()), w.says(bob, "RefuseTask", refusal("not\ntoday")), w.says(bob, "ApproveTask", word())}
		want := consent.Answer{Decision: consent.Refused, Words: "refused by spiffe://a.example/swarm/swci/bob: not today"}
		if got := w.guard().Ask(t.Context(), h, pull()); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		h.Approvals = h.Approvals[:1]
		if got := w.guard().Ask(t.Context(), h, pull()); got != want {
			t.Errorf("afterwards %v, want %v", got, want)
		}
	}
}

// TestAForgedApproval: whatever an SN makes of what somebody has signed, the host waits on and says what is wrong.
func TestAForgedApproval(t *testing.T) {
	foreign, err := rpctest.NewAuthority("a.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		forge      func(w *world) task.Approval
	}{
		{"of whoever asked", "is no approver of this host", func(w *world) task.Approval { return w.says(ann, "ApproveTask", word()) }},
		{"of another operator", "the word of spiffe://a.example/swarm/swci/eve does not count", func(w *world) task.Approval {
			return w.says("/swarm/swci/eve", "ApproveTask", word())
		}},
		{"of another under the name", "eve does not count", func(w *world) task.Approval {
			a := w.says("/swarm/swci/eve", "ApproveTask", word())
			a.By, a.Order.By = "spiffe://a.example"+bob, "spiffe://a.example"+bob
			return a
		}},
		{"of an authority that made itself", "an unknown operator", func(w *world) task.Approval {
			return task.Approval{Order: w.order(issue(w.t, foreign, bob), swarmID, "ApproveTask", word())}
		}},
		{"of an SN", "is no operator", func(w *world) task.Approval { return w.says("/swarm/sn/evil", "ApproveTask", word()) }},
		{"of another swarm", "did not sign this request for this swarm", func(w *world) task.Approval {
			return task.Approval{Order: w.order(w.svid(bob), "ffff", "ApproveTask", word())}
		}},
		{"without an order", "no operator's order", func(*world) task.Approval { return task.Approval{By: "spiffe://a.example" + bob} }},
		{"of another assignment", `signed for assignment "6", not for "7"`, func(w *world) task.Approval {
			x := word()
			x.Part.Assignment = "6"
			return w.says(bob, "ApproveTask", x)
		}},
		{"of another task", `signed for task "push"`, func(w *world) task.Approval {
			x := word()
			x.Part.Task = "push"
			return w.says(bob, "ApproveTask", x)
		}},
		{"of what the task was before", "signed for task digest", func(w *world) task.Approval {
			x := word()
			x.Part.Digest = strings.Repeat("0", 64)
			return w.says(bob, "ApproveTask", x)
		}},
		{"of another taskrunner", "signed for taskrunner", func(w *world) task.Approval {
			x := word()
			x.Part.Taskrunner = ""
			return w.says(bob, "ApproveTask", x)
		}},
		{"of another host", `signed for host "swop-1"`, func(w *world) task.Approval {
			x := word()
			x.Part.Host = "swop-1"
			return w.says(bob, "ApproveTask", x)
		}},
		{"expired", "has expired", func(w *world) task.Approval {
			x := word()
			x.Part.ExpiresUnixMs = time.Now().UnixMilli()
			return w.says(bob, "ApproveTask", x)
		}},
		{"without an expiry", "no expiry", func(w *world) task.Approval {
			x := word()
			x.Part.ExpiresUnixMs = 0
			return w.says(bob, "ApproveTask", x)
		}},
		{"the order of the assignment", `order is for "AssignTask"`, func(w *world) task.Approval { return w.says(bob, "AssignTask", word()) }},
		{"a refusal as an approval", "did not sign", func(w *world) task.Approval {
			a := w.says(bob, "RefuseTask", refusal(""))
			a.Order.Method = "ApproveTask"
			return a
		}},
		{"changed", "did not sign", func(w *world) task.Approval {
			a := w.says(bob, "ApproveTask", word())
			a.Order.AskedMS++
			return a
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.asks()
				g, h := w.guard(), w.assigned(request(), ann)
				h.Approvals = []task.Approval{tt.forge(w)}
				got := g.Ask(t.Context(), h, pull())
				e, _ := w.journal.Find("7")
				if got.Decision != consent.Asked || !strings.HasPrefix(got.Words, waits+"; ") || e.Decision != consent.Asked || e.Approver != "" {
					t.Errorf("got %v, and the journal has %+v", got, e)
				}
				if said := strings.ReplaceAll(w.log.String(), `\"`, `"`); !strings.Contains(said, tt.want) || strings.Count(said, "does not count\"") != 1 {
					t.Errorf("want %q once in the log:\n%s", tt.want, said)
				}
				g.Ask(t.Context(), h, pull())
				if said := w.log.String(); strings.Count(said, "does not count\"") != 1 {
					t.Errorf("it is said again:\n%s", said)
				}
				h.Approvals = append(h.Approvals, w.says(bob, "ApproveTask", word()))
				if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed {
					t.Errorf("a good one beside it: %v", got)
				}
			})
		})
	}
}

// TestApprovalsEnd: an approval that comes to the host after its SVID has ended, or after the assignment has expired, does not count.
func TestApprovalsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.asks()
		g, h := w.guard(), w.assigned(request(), ann)
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Asked {
			t.Fatal(got)
		}
		x := word()
		x.Part.ExpiresUnixMs = time.Now().Add(48 * time.Hour).UnixMilli()
		h.Approvals = []task.Approval{w.says(bob, "ApproveTask", x)}
		time.Sleep(2 * time.Hour)
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Asked || !strings.Contains(w.log.String(), "expired") {
			t.Errorf("%v, and the log has\n%s", got, w.log)
		}
		time.Sleep(23 * time.Hour)
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Refused || !strings.Contains(got.Words, "has expired") {
			t.Errorf("an assignment that has expired: %v", got)
		}
	})
}

// TestRenewedApprovalsEnd: however often one is signed anew, no host begins an assignment after that has expired.
func TestRenewedApprovalsEnd(t *testing.T) {
	for after, want := range map[time.Duration]consent.Decision{23 * time.Hour: consent.Allowed, 25 * time.Hour: consent.Refused} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.asks()
			g, h := w.guard(), w.assigned(request(), ann)
			if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Asked {
				t.Fatal(got)
			}
			time.Sleep(after)
			x := word()
			x.Part.ExpiresUnixMs = time.Now().Add(task.MaxValidMS * time.Millisecond).UnixMilli()
			h.Approvals = []task.Approval{{Number: 9, Host: host, Order: w.order(issue(t, w.authority, bob), swarmID, "ApproveTask", x)}}
			if got := g.Ask(t.Context(), h, pull()); got.Decision != want || want == consent.Refused && !strings.Contains(got.Words, "its order has expired") {
				t.Errorf("renewed after %v: %v", after, got)
			}
		})
	}
}
