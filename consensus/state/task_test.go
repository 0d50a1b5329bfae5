package state_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
)

func host(name string) state.RegisterNode {
	return state.RegisterNode{Node: state.Node{Name: name, Role: naming.RoleSWOP, PeerID: "key-" + name}, TokenHash: hexOf("ab", 64), AtMS: 3}
}

// assigned is a swarm with a ledger, two hosts and assignment 7 of a task to one of them.
func assigned() []state.Command {
	return []state.Command{
		state.InitSwarm{SwarmID: "swarm-1", AtMS: 1},
		state.BundleOf("a.example", [][]byte{{1}}, 2),
		host("swop-0"), host("swop-1"), proven("sl-0"),
		state.CreateTask{Task: "pull", TaskType: task.PullImage, Prereq: task.Root, CreatedBy: "spiffe://a.example/swarm/swci", AtMS: 4},
		state.EditTask{Task: "pull", Line: 1, Text: []byte("Tag: 1"), AtMS: 5},
		state.FinaliseTask{Task: "pull", AtMS: 6},
		state.CreateTaskrunner{Taskrunner: "tr", AtMS: 7},
		state.AssignTask{Assignment: task.Request{ID: "7", Task: "pull", Taskrunner: "tr", Groups: []task.Group{{Name: "peers", Peers: 1, Least: 1}}, By: "spiffe://a.example/swarm/swci"}, AtMS: 8},
	}
}

func moves(m ...task.Move) state.MoveAssignments { return state.MoveAssignments{Moves: m, AtMS: 9} }

func placed(node string) task.Move {
	return task.Move{Assignment: "7", Do: task.Place, Members: []task.Placement{{Node: node, Group: "peers", Peers: 1}}}
}

// TestTaskIsCarriedOut from its making to the end of its assignment: who made, fixed, assigned and ended it stands in the ledger, the
// snapshot reads back, and the sums are right (chained checks them).
func TestTaskIsCarriedOut(t *testing.T) {
	report := func(s task.State, code int32, cleaned bool) []task.Report {
		return []task.Report{{Node: "swop-0", State: s, Code: code, Cleaned: cleaned}}
	}
	s, lines, kinds := chained(t, append(assigned(),
		moves(placed("swop-0")),
		moves(task.Move{Assignment: "7", Epoch: 1, Reports: report(task.Prepared, 0, false), Do: task.Pass}),
		moves(task.Move{Assignment: "7", Epoch: 1, Reports: report(task.Exited, 3, false), Do: task.Judge, Verdict: task.Failed, Why: "exit code 3"}),
		state.CancelAssignment{Assignment: "7", Reason: "too late", AtMS: 10},
		moves(task.Move{Assignment: "7", Epoch: 1, Reports: report(task.Exited, 3, true), Do: task.Close}),
		state.ResetTaskrunner{Taskrunner: "tr", AtMS: 11},
		state.DeleteTaskrunner{Taskrunner: "tr", AtMS: 12},
		state.DeleteTask{Task: "pull", Force: true, AtMS: 13},
	)...)
	if d := cmp.Diff([]string{"swarm", "bundle", "registration", "task", "final_task", "assigned", "ended_assignment", "deleted_task"}, kinds); d != "" {
		t.Errorf("records differ (-want +got):\n%s", d)
	}
	_, body, err := ledger.Parse(lines[6])
	if err != nil {
		t.Fatal(err)
	}
	want := ledger.EndedAssignment{
		Assignment: "7", Task: "pull", Digest: s.Tasks.Assignments["7"].Digest, Verdict: "failed", Reason: "exit code 3",
		Members: []ledger.Member{{Node: "swop-0", PeerID: "key-swop-0", State: "exited", Code: 3}},
	}
	if d := cmp.Diff(ledger.Body(want), body); d != "" {
		t.Errorf("the verdict's record differs (-want +got):\n%s", d)
	}
	if a := s.Tasks.Assignments["7"]; a.Phase != task.Over || a.Verdict != task.Failed {
		t.Errorf("assignment %+v", a)
	}
	checkWhole(t, s, 64<<10)
}

// TestAssignmentStandsWholeInTheLedger, if its entry says so: those of before have records that keep their bytes.
func TestAssignmentStandsWholeInTheLedger(t *testing.T) {
	for _, whole := range []bool{true, false} {
		a := state.AssignTask{Assignment: task.Request{
			ID: "8", Task: "pull", Taskrunner: task.DefaultTaskrunner, Groups: []task.Group{{Name: "peers", Peers: 2, Least: 1}}, Retries: 3, TimeoutMS: 4, ExpiresMS: 5,
		}, AtMS: 9, Whole: whole}
		_, lines, _ := chained(t, append(assigned(), a)...)
		_, body, err := ledger.Parse(lines[len(lines)-1])
		got, ok := body.(ledger.Assigned)
		want := ledger.Assigned{Assignment: "8", Task: "pull", Digest: got.Digest, Taskrunner: task.DefaultTaskrunner}
		if whole {
			want.Groups, want.Retries, want.TimeoutMS, want.ExpiresMS = []ledger.Group{{Name: "peers", Peers: 2, Least: 1}}, 3, 4, 5
		}
		if d := cmp.Diff(want, got); err != nil || !ok || d != "" {
			t.Errorf("whole: %v: %v (-want +got)\n%s", whole, err, d)
		}
	}
}

// TestRecordsSayWhatIsJoined, and in which groups members were, if the entry says so: those of before have records that keep their bytes.
func TestRecordsSayWhatIsJoined(t *testing.T) {
	for _, detailed := range []bool{false, true} {
		pull := pullDigestOf(t)
		join := state.AssignTask{Assignment: task.Request{
			ID: "8", Task: "pull", Taskrunner: "tr", Hosts: []string{"swop-1"}, Groups: []task.Group{{Name: "peers", Peers: 1, Least: 1}}, Joins: "7",
		}, AtMS: 9, Detailed: detailed}
		on := task.Move{Assignment: "8", Do: task.Place, Members: []task.Placement{{Node: "swop-1", Group: "peers", Peers: 1}}}
		signed := task.Move{Assignment: "8", Epoch: 1, Reports: []task.Report{{Node: "swop-1", State: task.Prepared, Signature: "c2ln"}}}
		_, lines, _ := chained(t, append(assigned(), moves(placed("swop-0")), join, moves(on), moves(signed), state.CancelAssignment{Assignment: "8", AtMS: 10})...)
		wantJoin := ledger.Assigned{Assignment: "8", Task: "pull", Digest: pull, Taskrunner: "tr", Hosts: []string{"swop-1"}}
		wantEnd := ledger.EndedAssignment{Assignment: "8", Task: "pull", Digest: pull, Verdict: "cancelled", Members: []ledger.Member{{Node: "swop-1", PeerID: "key-swop-1", State: "prepared"}}}
		if detailed {
			wantEnd.Epoch, wantEnd.Members[0].Signature = 1, "c2ln"
			wantJoin.Joins, wantEnd.Members[0].Group, wantEnd.Members[0].Peers = "7", "peers", 1
		}
		for i, want := range []ledger.Body{wantJoin, wantEnd} {
			_, got, err := ledger.Parse(lines[len(lines)-2+i])
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Errorf("detailed: %v: %v (-want +got)\n%s", detailed, err, d)
			}
		}
	}
}

// TestCancelledAssignmentNamesItsOrder in the ledger.
func TestCancelledAssignmentNamesItsOrder(t *testing.T) {
	for _, c := range []state.Command{
		state.CancelAssignment{Assignment: "7", Reason: "why", AtMS: 10, Order: anOrder("CancelAssignment")},
		state.ResetTaskrunner{Taskrunner: "tr", Reason: "why", AtMS: 10, Order: anOrder("ResetTaskrunner")},
	} {
		_, lines, _ := chained(t, append(assigned(), moves(placed("swop-0")), c)...)
		_, body, err := ledger.Parse(lines[len(lines)-1])
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := body.(ledger.EndedAssignment); !ok || e.Verdict != "cancelled" || e.Order == nil {
			t.Errorf("%s: record %+v", c.Type(), body)
		}
	}
}

// TestHostsSeeTheOrder: what the operator signed is there for hosts until the assignment is over.
func TestHostsSeeTheOrder(t *testing.T) {
	ordered := assigned()
	last, ok := ordered[len(ordered)-1].(state.AssignTask)
	if !ok {
		t.Fatal("the last command assigns nothing")
	}
	last.Order = anOrder("AssignTask")
	ordered[len(ordered)-1] = last
	s, _, _ := chained(t, ordered...)
	if d := cmp.Diff(last.Order, s.Tasks.Assignments["7"].Order); d != "" {
		t.Errorf("hosts see another order (-want +got):\n%s", d)
	}
	s = mustApply(t, mustApply(t, s, state.CancelAssignment{Assignment: "7"}), moves(task.Move{Assignment: "7", Do: task.Close}))
	if o := s.Tasks.Assignments["7"].Order; o != nil {
		t.Errorf("it is over, and keeps %+v", o)
	}
}

// TestApprovalsStandInTheLedger, with their orders, and hosts see them.
func TestApprovalsStandInTheLedger(t *testing.T) {
	c := state.RefuseTask{PartOfHost: part("tr", 11, "RefuseTask"), Reason: "not today"}
	c.Assignment, c.Digest = "7", pullDigestOf(t)
	yes := state.ApproveTask{PartOfHost: c.PartOfHost}
	s, lines, kinds := chained(t, append(assigned(), moves(placed("swop-0")), yes, yes, c, c)...)
	if n := len(kinds); kinds[n-2] != "approval" || kinds[n-1] != "approval" || kinds[n-3] == "approval" {
		t.Errorf("the ledger has %v", kinds)
	}
	_, body, err := ledger.Parse(lines[len(lines)-1])
	if err != nil {
		t.Fatal(err)
	}
	want := ledger.Approval{
		Assignment: "7", Task: "pull", Digest: c.Digest, Host: "swop-0", Refused: true, Reason: "not today", By: c.By, Order: c.Order,
	}
	if d := cmp.Diff(ledger.Body(want), body); d != "" {
		t.Errorf("the record differs (-want +got):\n%s", d)
	}
	hosted := task.HostedOn(s.Tasks, "swop-0")
	if d := cmp.Diff([]task.Approval{{Number: 2, Host: "swop-0", Refuse: true, Reason: "not today", By: c.By, AtMS: 11, Order: c.Order}}, hosted[0].Approvals); d != "" {
		t.Errorf("the host sees another one (-want +got):\n%s", d)
	}
	checkWhole(t, s, 64<<10)
	yes.By = "spiffe://a.example/swarm/swci/eve"
	if _, _, err := s.WithRoom(s.Size() + 10).Apply(yes); state.ReasonOf(err) != state.ReasonStateFull {
		t.Errorf("a full state: %v", err)
	}
}

func pullDigestOf(t *testing.T) string {
	t.Helper()
	s, _, _ := chained(t, assigned()...)
	return s.Tasks.Assignments["7"].Digest
}

// TestMembersAreLiveHosts: a member is put on a registered SWOP that lives and is not banned, by the key that it has.
func TestMembersAreLiveHosts(t *testing.T) {
	s, _, _ := chained(t, append(assigned(), state.SetLive{Node: "swop-1", AtMS: 8})...)
	for _, node := range []string{"swop-1", "sl-0", "nobody"} {
		if _, _, err := s.Apply(moves(placed(node))); state.ReasonOf(err) != state.ReasonBadCommand {
			t.Errorf("a member on %s: %v", node, err)
		}
	}
	s = mustApply(t, s, moves(placed("swop-0")))
	if m := s.Tasks.Assignments["7"].Members[0]; m.PeerID != "key-swop-0" {
		t.Errorf("member %+v", m)
	}
	banned := mustApply(t, mustApply(t, s, state.SetLive{Node: "swop-1", Live: true}), state.BanNode{PeerID: "key-swop-1", By: "spiffe://a.example/swarm/swci"})
	if _, _, err := banned.Apply(moves(placed("swop-1"))); err == nil {
		t.Error("a banned host is a member")
	}
}

// TestOffers: a SWOP's is kept, and replaced when it registers again; others have none.
func TestOffers(t *testing.T) {
	offers := func(role string, o task.Offer) state.RegisterNode {
		return state.RegisterNode{Node: state.Node{Name: "x", Role: role, PeerID: "key-x", Offer: &o}, TokenHash: hexOf("ab", 64)}
	}
	s := mustApply(t, state.New(), offers(naming.RoleSWOP, task.Offer{Taskrunner: "tr", Peers: 2}))
	if o := s.Nodes["x"].Offer; o == nil || o.Counts(task.RunSwarm) != 2 || o.Counts(task.PullImage) != 1 {
		t.Errorf("offer %+v", o)
	}
	s = mustApply(t, s, state.RegisterNode{Node: state.Node{Name: "x", Role: naming.RoleSWOP, PeerID: "key-x"}, TokenHash: hexOf("ab", 64)})
	if o := s.Nodes["x"].Offer; o != nil {
		t.Errorf("it offers %+v still", o)
	}
	for name, c := range map[string]state.RegisterNode{
		"an SL": offers(naming.RoleSL, task.Offer{Taskrunner: "tr", Peers: 2}), "bad taskrunner": offers(naming.RoleSWOP, task.Offer{Taskrunner: "a b", Peers: 2}),
		"no peers": offers(naming.RoleSWOP, task.Offer{Taskrunner: "tr"}), "bad group": offers(naming.RoleSWOP, task.Offer{Taskrunner: "tr", Peers: 2, Group: "a b"}), "many peers": offers(naming.RoleSWOP, task.Offer{Taskrunner: "tr", Peers: task.MaxMembers + 1}),
	} {
		if _, _, err := state.New().Apply(c); state.ReasonOf(err) != state.ReasonBadCommand {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReasonsOfTasks: why tasks are refused has a name that stays.
func TestReasonsOfTasks(t *testing.T) {
	s, _, _ := chained(t, assigned()...)
	again := state.AssignTask{Assignment: task.Request{ID: "8", Task: "pull", Taskrunner: "tr", Groups: []task.Group{{Name: "peers", Peers: 1, Least: 1}}}}
	for reason, c := range map[string]state.Command{
		state.ReasonTaskUnknown:    state.EditTask{Task: "other", Line: 1, Text: []byte("x")},
		state.ReasonTaskTaken:      state.CreateTask{Task: "pull", TaskType: task.RunSwarm, Prereq: task.Root},
		state.ReasonTaskFinal:      state.EditTask{Task: "pull", Line: 1, Text: []byte("x")},
		state.ReasonTaskOpen:       state.FinaliseTask{Task: "empty"},
		state.ReasonTaskInUse:      state.DeleteTask{Task: "pull", Force: true},
		state.ReasonTaskrunnerBusy: again,
		state.ReasonStaleTask:      moves(task.Move{Assignment: "7", Epoch: 3, Do: task.Pass}),
		state.ReasonTasksFull:      state.EditTask{Task: "empty", Line: 1, Text: make([]byte, task.MaxDefinition+1)},
		state.ReasonBadCommand:     state.CreateTask{Task: "a b", TaskType: task.RunSwarm, Prereq: task.Root},
	} {
		s := mustApply(t, s, state.CreateTask{Task: "empty", TaskType: task.RunSwarm, Prereq: task.Root})
		if reason == state.ReasonTasksFull {
			c = state.EditTask{Task: "empty", Line: 1, Text: bigText()}
		}
		_, _, err := s.Apply(c)
		if e, ok := errors.AsType[*state.Error](err); !ok || e.Reason != reason {
			t.Errorf("%s: %v, want %s", c.Type(), err, reason)
		}
	}
}

func bigText() []byte {
	text := make([]byte, task.MaxDefinition+1)
	for i := range text {
		text[i] = 'x'
	}
	return text
}

// TestJobsAreTasksOfNewEntries: one of before that made a task of a type that nobody knew was refused, and stays so.
func TestJobsAreTasksOfNewEntries(t *testing.T) {
	s, _, _ := chained(t, assigned()...)
	c := state.CreateTask{Task: "job", TaskType: task.RunJob, Prereq: task.Root}
	if _, _, err := s.Apply(c); state.ReasonOf(err) != state.ReasonBadCommand {
		t.Errorf("an entry of before: %v", err)
	}
	c.Jobs = true
	if made := mustApply(t, s, c).Tasks.Task("job"); made == nil || made.Type != task.RunJob {
		t.Errorf("it is %+v", made)
	}
}

// TestAJobThatWasWithdrawn and is not placed anew has failed, whatever its members come to since then: its record says so.
func TestAJobThatWasWithdrawn(t *testing.T) {
	report := func(member uint32, s task.State, code int32) task.Report {
		return task.Report{Member: member, Node: "swop-0", State: s, Code: code}
	}
	both := func(s task.State) []task.Report { return []task.Report{report(0, s, 0), report(1, s, 0)} }
	two := []task.Placement{{Node: "swop-0", Group: "main", Peers: 1}, {Node: "swop-0", Group: "worker", Peers: 1}}
	s, lines, _ := chained(t, append(assigned(),
		state.CreateTask{Task: "job", TaskType: task.RunJob, Prereq: task.Root, AtMS: 9, Jobs: true},
		state.EditTask{Task: "job", Line: 1, Text: []byte("name: job"), AtMS: 10},
		state.FinaliseTask{Task: "job", AtMS: 11},
		state.AssignTask{Assignment: task.Request{
			ID: "8", Task: "job", Hosts: []string{"swop-0"}, Groups: []task.Group{{Name: "main", Peers: 1, Least: 1}, {Name: "worker", Peers: 1}}, Retries: 1,
		}, AtMS: 12, Whole: true, Detailed: true, Strict: true},
		moves(task.Move{Assignment: "8", Do: task.Place, Members: two}),
		moves(task.Move{Assignment: "8", Epoch: 1, Reports: both(task.Prepared), Do: task.Pass}),
		moves(task.Move{Assignment: "8", Epoch: 1, Reports: both(task.Ready)}),
		moves(task.Move{Assignment: "8", Epoch: 1, Reports: []task.Report{report(1, task.Exited, 3)}, Do: task.Withdraw, Why: "it failed", End: task.EndMemberFailed}),
		moves(task.Move{Assignment: "8", Epoch: 1, Reports: []task.Report{report(0, task.Exited, 0)}, Do: task.Judge, Verdict: task.Failed, End: task.EndMemberFailed}),
	)...)
	if a := s.Tasks.Assignments["8"]; a.End != task.EndMemberFailed || a.LastWhy != "it failed" || !a.Members[0].Succeeded() {
		t.Errorf("it is %+v", a)
	}
	_, body, err := ledger.Parse(lines[len(lines)-1])
	if e, is := body.(ledger.EndedAssignment); err != nil || !is || !e.Withdrawn || e.Assignment != "8" {
		t.Errorf("the record is %+v, %v", body, err)
	}
}

// TestAJobIsCarriedOut by two members on one host: the ledger has what it was asked to be, and its end; what is no job has neither.
func TestAJobIsCarriedOut(t *testing.T) {
	report := func(s task.State, cleaned bool) []task.Report {
		return []task.Report{{Node: "swop-0", State: s, Cleaned: cleaned}, {Member: 1, Node: "swop-0", State: s, Cleaned: cleaned}}
	}
	terms := task.JobTerms{Done: task.DoneMain, ReadyMS: 600_000, Together: true}
	two := []task.Placement{{Node: "swop-0", Group: "main", Peers: 1}, {Node: "swop-0", Group: "worker", Peers: 1}}
	s, lines, kinds := chained(t, append(assigned(),
		state.CreateTask{Task: "job", TaskType: task.RunJob, Prereq: task.Root, AtMS: 9, Jobs: true},
		state.EditTask{Task: "job", Line: 1, Text: []byte("name: job"), AtMS: 10},
		state.FinaliseTask{Task: "job", AtMS: 11},
		state.AssignTask{Assignment: task.Request{
			ID: "8", Task: "job", Hosts: []string{"swop-0"}, Groups: []task.Group{{Name: "main", Peers: 1, Least: 1}, {Name: "worker", Peers: 1}}, JobTerms: terms,
		}, AtMS: 12, Whole: true, Detailed: true, Strict: true},
		moves(task.Move{Assignment: "8", Do: task.Place, Members: two}),
		moves(task.Move{Assignment: "8", Epoch: 1, Reports: report(task.Prepared, false), Do: task.Pass}),
		moves(task.Move{Assignment: "8", Epoch: 1, Reports: report(task.Ready, false)}),
		moves(task.Move{Assignment: "8", Epoch: 1, Reports: report(task.Exited, false)[:1], Do: task.Judge, Verdict: task.Succeeded, End: task.EndEntryDone}),
		moves(task.Move{Assignment: "8", Epoch: 1, Reports: report(task.Stopped, true), Do: task.Close}),
		state.CancelAssignment{Assignment: "7", AtMS: 13},
	)...)
	if a := s.Tasks.Assignments["8"]; a.End != task.EndEntryDone || a.Phase != task.Over || a.ReadySinceMS != 9 {
		t.Errorf("it is %+v", a)
	}
	if d := cmp.Diff([]string{"swarm", "bundle", "registration", "task", "final_task", "assigned", "task", "final_task", "assigned", "ended_assignment", "ended_assignment"}, kinds); d != "" {
		t.Fatal(d)
	}
	var ends []string
	for _, line := range lines {
		_, body, err := ledger.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		switch b := body.(type) {
		case ledger.Assigned:
			if want := map[string]ledger.JobTerms{"8": ledger.JobTerms(terms)}[b.Assignment]; b.JobTerms != want {
				t.Errorf("assignment %s has the terms %+v", b.Assignment, b.JobTerms)
			}
		case ledger.EndedAssignment:
			ends = append(ends, fmt.Sprintf("%s %s %q", b.Assignment, b.Verdict, b.End))
		}
	}
	if got := strings.Join(ends, ", "); got != `8 succeeded "entry_done", 7 cancelled ""` {
		t.Errorf("ended: %s", got)
	}
}

// TestFullStateTakesNoTasks, and lets what runs go on.
func TestFullStateTakesNoTasks(t *testing.T) {
	s, _, _ := chained(t, append(assigned(), state.CreateTask{Task: "more", TaskType: task.RunSwarm, Prereq: task.Root})...)
	s = s.WithRoom(s.Size() + 10)
	for _, c := range []state.Command{
		state.CreateTask{Task: "yet-another", TaskType: task.RunSwarm, Prereq: task.Root},
		state.EditTask{Task: "more", Line: 1, Text: []byte("0123456789")},
		state.CreateTaskrunner{Taskrunner: "another"},
		state.AssignTask{Assignment: task.Request{ID: "8", Task: "pull", Taskrunner: task.DefaultTaskrunner, Groups: []task.Group{{Name: "peers", Peers: 1, Least: 1}}}},
	} {
		if _, _, err := s.Apply(c); state.ReasonOf(err) != state.ReasonStateFull {
			t.Errorf("%s: %v", c.Type(), err)
		}
	}
	mustApply(t, mustApply(t, s, moves(placed("swop-0"))), state.CancelAssignment{Assignment: "7"})
}

// BenchmarkMove is a report of one member at a state with as many tasks and assignments as there may be.
func BenchmarkMove(b *testing.B) {
	s := state.New()
	for _, c := range assigned() {
		s, _, _ = s.Apply(c)
	}
	for i := range task.MaxTasks - 1 {
		s, _, _ = s.Apply(state.CreateTask{Task: fmt.Sprint("t", i), TaskType: task.PullImage, Prereq: task.Root})
	}
	s, _, _ = s.Apply(moves(placed("swop-0")))
	b.ReportMetric(float64(s.Size())/(1<<20), "MiB")
	for b.Loop() {
		next, _, err := s.Apply(moves(task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "swop-0", State: task.Prepared}}}))
		if err != nil {
			b.Fatal(err)
		}
		if err := state.CheckChange(s, next); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTheRecordSaysWhoHasAsked for the end of a job, if the member has become something else since; of one that says so itself once is enough.
func TestTheRecordSaysWhoHasAsked(t *testing.T) {
	report := func(s task.State, asks string) []task.Report {
		return []task.Report{{Node: "swop-0", State: s, Asks: asks, Signature: "c2ln" + asks}}
	}
	two := []task.Placement{{Node: "swop-0", Group: "main", Peers: 1}, {Node: "swop-1", Group: "main", Peers: 1}}
	for later, want := range map[string]*ledger.Asked{"": {State: "ready", Signature: "c2lnstop"}, task.AskStop: nil} {
		_, lines, _ := chained(t, append(assigned(),
			state.CreateTask{Task: "job", TaskType: task.RunJob, Prereq: task.Root, AtMS: 9, Jobs: true},
			state.EditTask{Task: "job", Line: 1, Text: []byte("compat: oci"), AtMS: 10},
			state.FinaliseTask{Task: "job", AtMS: 11},
			state.AssignTask{Assignment: task.Request{
				ID: "8", Task: "job", Hosts: []string{"swop-0", "swop-1"}, Groups: []task.Group{{Name: "main", Peers: 2, Least: 2}}, JobTerms: task.JobTerms{Stops: true},
			}, AtMS: 12, Whole: true, Detailed: true, Strict: true, ExitsCount: true},
			moves(task.Move{Assignment: "8", Do: task.Place, Members: two}),
			moves(task.Move{Assignment: "8", Epoch: 1, Reports: []task.Report{{Node: "swop-0", State: task.Prepared}, {Member: 1, Node: "swop-1", State: task.Prepared}}, Do: task.Pass}),
			moves(task.Move{Assignment: "8", Epoch: 1, Reports: report(task.Ready, task.AskStop)}),
			moves(task.Move{Assignment: "8", Epoch: 1, Reports: report(task.Exited, later)}),
			moves(task.Move{Assignment: "8", Epoch: 1, Do: task.Judge, Verdict: task.Succeeded, End: task.EndStopFile}),
		)...)
		_, body, err := ledger.Parse(lines[len(lines)-1])
		e, is := body.(ledger.EndedAssignment)
		if d := cmp.Diff(want, e.Asked); err != nil || !is || d != "" {
			t.Errorf("%+v, %v (-want +got)\n%s", body, err, d)
		}
	}
}
