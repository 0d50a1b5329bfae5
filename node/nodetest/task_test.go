package nodetest_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/node/nodetest"
)

// assignments are an operator's, of one task that each carries out anew.
type assignments struct {
	t      *testing.T
	swarm  *nodetest.Swarm
	op     client.Tasks
	digest string
	ids    []string
	swops  []*swop
}

// newAssignments writes the task, and starts hosts that listen.
func newAssignments(t *testing.T, s *nodetest.Swarm, hosts int) *assignments {
	t.Helper()
	a := &assignments{t: t, swarm: s, op: client.Tasks{By: s.Operator()}}
	ctx := t.Context()
	_, err := a.op.CreateTask(ctx, &swarmv1.CreateTaskRequest{Name: "pull", Type: task.PullImage, Author: "me", Prereq: task.Root, Outcome: "img:1"})
	a.must(err)
	_, err = a.op.EditTask(ctx, "pull", 1, "Tag: 1")
	a.must(err)
	final, err := a.op.FinaliseTask(ctx, "pull", "")
	a.must(err)
	a.digest = final.GetDigest()
	for i := range hosts {
		a.swops = append(a.swops, listen(s, i))
	}
	s.Until("the hosts to listen", func() bool { return a.listening() == hosts })
	return a
}

// listening counts the hosts that listen, as an operator sees them.
func (a *assignments) listening() (n int) {
	a.t.Helper()
	time.Sleep(500 * time.Millisecond)
	all, err := a.swarm.Operator().ListNodes(a.t.Context())
	a.must(err)
	for _, x := range all.GetNodes() {
		if x.GetLive() && x.GetOffer().GetTaskrunner() == task.DefaultTaskrunner && x.GetOffer().GetPeers() == 2 {
			n++
		}
	}
	return n
}

func (a *assignments) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// assign hands the task to n peers.
func (a *assignments) assign(n, retries uint32) (id string) {
	a.t.Helper()
	got, err := a.op.AssignTask(a.t.Context(), &swarmv1.AssignTaskRequest{
		Task: "pull", Digest: a.digest, Taskrunner: task.DefaultTaskrunner, Groups: []*swarmv1.TaskGroup{{Name: "peers", Peers: n, Least: n}},
		Retries: retries, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(),
	})
	a.must(err)
	a.ids = append(a.ids, got.GetId())
	return got.GetId()
}

// get shows an assignment. A call takes real time, so some virtual time passes before.
func (a *assignments) get(id string) *swarmv1.Assignment {
	time.Sleep(500 * time.Millisecond)
	got, err := a.op.GetAssignment(a.t.Context(), id)
	a.must(err)
	return got
}

// until waits for an assignment to come to a phase.
func (a *assignments) until(id string, p task.Phase) *swarmv1.Assignment {
	a.t.Helper()
	var got *swarmv1.Assignment
	a.swarm.Until(fmt.Sprintf("assignment %s to be %s", id, p), func() bool {
		got = a.get(id)
		return got.GetPhase() == string(p)
	})
	return got
}

// over waits until an assignment is over, and holds it to its verdict.
func (a *assignments) over(id, verdict, reason string) *swarmv1.Assignment {
	a.t.Helper()
	got := a.until(id, task.Over)
	if got.GetVerdict() != verdict || got.GetReason() != reason {
		a.t.Errorf("assignment %s ended as %s, %q, want %s, %q", id, got.GetVerdict(), got.GetReason(), verdict, reason)
	}
	return got
}

// holds returns the hosts of an assignment that run.
func (a *assignments) holds(m []*swarmv1.AssignmentMember) (hosts []*swop) {
	for _, x := range m {
		for _, w := range a.swops {
			if w.guest.Name == x.GetNode() {
				hosts = append(hosts, w)
			}
		}
	}
	return hosts
}

// check holds what hosts did and the ledger to what was asked for: nothing started twice, one verdict each, all by the operator's orders.
func (a *assignments) check() {
	a.t.Helper()
	for _, w := range a.swops {
		w.end()
		if w.err != nil {
			a.t.Errorf("%s gave up: %v", w.guest.Name, w.err)
		}
		for p, n := range w.begun {
			if n != 1 {
				a.t.Errorf("%s started member %d of assignment %s, epoch %d, %d times", w.guest.Name, p.member, p.id, p.epoch, n)
			}
		}
	}
	a.ledger()
}

// ledger holds that the ledger has each assignment once, with one verdict, and can be verified.
func (a *assignments) ledger() {
	a.t.Helper()
	var b bytes.Buffer
	_, err := a.swarm.Operator().ReadLedger(a.t.Context(), &b)
	a.must(err)
	assigned, verdicts, o := map[string]int{}, map[string]int{}, audit.Options{}
	for line := range bytes.Lines(b.Bytes()) {
		_, body, err := ledger.Parse(line)
		a.must(err)
		switch x := body.(type) {
		case ledger.Bundle:
			for _, der := range x.Certificates {
				cert, err := x509.ParseCertificate(der)
				a.must(err)
				o.Authorities = append(o.Authorities, cert)
			}
		case ledger.Assigned:
			assigned[x.Assignment]++
		case ledger.EndedAssignment:
			verdicts[x.Assignment]++
		}
	}
	for _, id := range a.ids {
		if assigned[id] != 1 || verdicts[id] != 1 {
			a.t.Errorf("the ledger has assignment %s %d times, and %d verdicts on it", id, assigned[id], verdicts[id])
		}
	}
	if r, err := audit.Verify(&b, o); err != nil || !r.Good() || r.UnsignedMembers > 0 {
		a.t.Errorf("audit: %v, %v; %d members whose hosts signed nothing", err, r.Problems, r.UnsignedMembers)
	}
}

// TestHostsCarryOutTasks: an assignment comes to one verdict while all goes well, when the leader dies, when a host dies, when that is
// replaced by another, and when all of it happens at a time.
func TestHostsCarryOutTasks(t *testing.T) {
	history(t, nodetest.Config{SNs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		a := newAssignments(t, s, 4)
		defer a.check()

		well := a.over(a.assign(3, 0), "succeeded", "")
		entries := 0
		for _, what := range s.Log.Entries() {
			if what == (state.AssignTask{}).Type() || what == (state.MoveAssignments{}).Type() {
				entries++
			}
		}
		if t.Logf("%.1f entries of the log for each member", float64(entries)/3); entries > 4*3 {
			t.Errorf("%d entries of the log for three members, at most four for each", entries)
		}
		if well.GetCompletedPeers() != 3 || well.GetEpoch() != 1 || well.GetStatus() != "COMPLETE" || well.GetBy() == "" {
			t.Errorf("while all goes well: %v", well)
		}

		id := a.assign(3, 0)
		a.until(id, task.Running)
		gone := s.Leader()
		s.Crash(gone)
		if got := a.over(id, "succeeded", ""); got.GetEpoch() != 1 {
			t.Errorf("the leader's death cost epoch %d", got.GetEpoch())
		}
		s.Restart(gone)

		id = a.assign(3, 0)
		dies := a.holds(a.until(id, task.Running).GetMembers())[1]
		dies.end()
		a.over(id, "failed", dies.guest.Name+" was lost: it is not heard any more")

		id = a.assign(3, 1)
		got := a.until(id, task.Running)
		a.swops = append(a.swops, listen(s, 4))
		s.Until("another host to listen", func() bool { return a.listening() == 4 })
		a.holds(got.GetMembers())[0].end()
		gone = s.Leader()
		s.Crash(gone)
		if got := a.over(id, "succeeded", ""); got.GetEpoch() != 2 || len(a.holds(got.GetMembers())) != 3 {
			t.Errorf("after a host and the leader died: %v", got)
		}
		s.Restart(gone)
		run, err := a.op.GetTaskrunner(t.Context(), task.DefaultTaskrunner)
		a.must(err)
		if run.GetTaskrunner().GetStatus() != "COMPLETE" || run.GetAssignment().GetId() != id {
			t.Errorf("the taskrunner: %v", run)
		}

		id = a.assign(9, 0) // nobody has so many
		s.Until("it to say what it waits for", func() bool { return a.get(id).GetWants() != "" })
		_, err = a.op.ResetTaskrunner(t.Context(), task.DefaultTaskrunner, "enough")
		a.must(err)
		a.over(id, "cancelled", "enough")
	})
}

// TestAssignmentsUnderRandomFaults: hosts and SNs die and come back at random, and each assignment still comes to one verdict; never do
// programs of two epochs run at a time.
func TestAssignmentsUnderRandomFaults(t *testing.T) {
	history(t, nodetest.Config{SNs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		a := newAssignments(t, s, 8)
		defer a.check()
		rng := rand.New(rand.NewPCG(7, 11)) //nolint:gosec // the same each time
		down, gone, ended, succeeded := map[int]bool{}, "", []*swop{}, 0
		strike := func() {
			switch i := rng.IntN(len(a.swops)); {
			case rng.IntN(6) == 0 && gone == "":
				gone = s.Leader()
				s.Crash(gone)
			case rng.IntN(3) == 0 && gone != "":
				s.Restart(gone)
				gone = ""
			case down[i] && gone == "": // a host that starts knows one SN alone
				a.swops[i] = listen(s, i)
				delete(down, i)
			case !down[i] && len(down) < 4:
				a.swops[i].end()
				ended, down[i] = append(ended, a.swops[i]), true
			}
		}
		for range 5 {
			id := a.assign(uint32(1+rng.IntN(4)), 20)
			for a.get(id).GetPhase() != string(task.Over) {
				if rng.IntN(5) == 0 {
					strike()
				}
				if n := a.running(id); len(n) > 1 {
					t.Fatalf("programs of epochs %v of assignment %s run at a time", n, id)
				}
			}
			if a.get(id).GetVerdict() == string(task.Succeeded) {
				succeeded++
			}
		}
		if gone != "" {
			s.Restart(gone)
		}
		t.Logf("%d hosts died, %d of %d assignments succeeded", len(ended), succeeded, len(a.ids))
		if len(ended) < 3 || succeeded < 3 {
			t.Errorf("%d hosts died, and %d assignments succeeded: the faults were too mild, or too hard", len(ended), succeeded)
		}
	})
}

// running are the epochs of an assignment of which programs run.
func (a *assignments) running(id string) map[uint32]bool {
	epochs := map[uint32]bool{}
	for _, w := range a.swops {
		w.mu.Lock()
		for p, x := range w.has {
			if p.id == id && x.state == task.Started {
				epochs[p.epoch] = true
			}
		}
		w.mu.Unlock()
	}
	return epochs
}
