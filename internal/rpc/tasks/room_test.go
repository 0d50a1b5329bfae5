package tasks_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/rpc/tasks"
)

// viewed is an SN of which only the view is asked.
type viewed struct {
	tasks.SN

	board *task.Board
	nodes map[string]*state.Node
}

func (v viewed) View() *state.State {
	s := state.New()
	s.Tasks = v.board
	if v.nodes != nil {
		s.Nodes = v.nodes
	}
	return s
}

// large is an assignment with as many members as there may be, and their words.
func large(id uint64, joins string, words int) *task.Assignment {
	a := &task.Assignment{
		Request: task.Request{ID: strconv.FormatUint(id, 10), Task: strings.Repeat("t", 128), Digest: strings.Repeat("d", 64), Taskrunner: task.DefaultTaskrunner, Joins: joins, By: strings.Repeat("b", 2048)},
		Phase:   task.Preparing, CreatedMS: int64(id), Epoch: 1, //nolint:gosec // few
	}
	for i := range task.MaxMembers {
		host := fmt.Sprintf("%063d", i)
		a.Hosts = append(a.Hosts, host)
		a.Members = append(a.Members, task.Member{Node: host, PeerID: strings.Repeat("k", 128), Group: strings.Repeat("g", 63), Peers: 1, State: task.Asked, Text: strings.Repeat("x", 256)})
		for w := range words {
			a.Approvals = append(a.Approvals, task.Approval{Number: uint64(len(a.Approvals) + 1), Host: host, Reason: strings.Repeat("r", 256), By: fmt.Sprint(strings.Repeat("b", 2000), w)})
		}
	}
	return a
}

func boardOf(all ...*task.Assignment) *task.Board {
	b := (*task.Board)(nil).Whole()
	for _, a := range all {
		b.Assignments[a.ID] = a
	}
	b.Taskrunners[task.DefaultTaskrunner] = &task.Taskrunner{Name: task.DefaultTaskrunner, Assignment: all[0].ID}
	return b
}

// over ends an assignment as the number-th.
func over(a *task.Assignment, number uint64) *task.Assignment {
	a.Phase, a.Verdict, a.Number, a.Approvals = task.Over, task.Succeeded, number, nil
	return a
}

// answered holds an answer to the bound of all of them.
func answered[M proto.Message](t *testing.T, m M, err error) M {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if n := proto.Size(m); n > 1<<20 {
		t.Errorf("an answer of %d bytes", n)
	}
	return m
}

// TestAnswersHaveRoom: however many words operators say and hosts join, an answer is bounded, has the last words, and says what it leaves out.
func TestAnswersHaveRoom(t *testing.T) {
	all := []*task.Assignment{large(7, "", task.MaxApprovals), large(8, "7", 1), large(9, "7", 0), over(large(5, "7", 0), 1), over(large(6, "7", 0), 2)}
	s := tasks.New(viewed{board: boardOf(all...)})
	one, err := s.GetAssignment(t.Context(), connect.NewRequest(&swarmv1.GetAssignmentRequest{Id: "7"}))
	a := answered(t, one.Msg, err).GetAssignment()
	shown := len(a.GetApprovals())
	if shown < 100 || shown+int(a.GetApprovalsLeftOut()) != task.MaxMembers*task.MaxApprovals || len(a.GetMembers()) != task.MaxMembers || a.GetMemberCount() != task.MaxMembers {
		t.Errorf("%d approvals, %d left out, %d members", shown, a.GetApprovalsLeftOut(), len(a.GetMembers()))
	}
	if last := a.GetApprovals()[shown-1]; !strings.HasSuffix(last.GetBy(), "b15") || !strings.HasSuffix(last.GetHost(), "1023") {
		t.Errorf("the last word is %s on %s", last.GetBy(), last.GetHost())
	}
	r, err := s.GetTaskrunner(t.Context(), connect.NewRequest(&swarmv1.GetTaskrunnerRequest{Name: task.DefaultTaskrunner}))
	got := answered(t, r.Msg, err)
	bare := 0 // under way and left out: without members, so that nobody takes it for over
	for _, a := range got.GetJoined() {
		if a.GetPhase() != "preparing" {
			t.Errorf("%s is %s", a.GetId(), a.GetPhase())
		}
		if len(a.GetMembers()) == 0 {
			bare++
		}
	}
	for _, a := range append(got.GetJoined(), got.GetEnded()...) { // large(n) was made at n
		if want := map[string]uint32{"5": 1, "6": 2, "8": 3, "9": 4}[a.GetId()] * task.MaxMembers; len(a.GetMembers()) > 0 && a.GetFirstIndex() != want {
			t.Errorf("%s begins with index %d, want %d", a.GetId(), a.GetFirstIndex(), want)
		}
	}
	if got.GetAssignment().GetId() != "7" || len(got.GetJoined()) != 2 || len(got.GetEnded())+int(got.GetLeftOut())-bare != 2 || got.GetLeftOut() == 0 {
		t.Errorf("%s, %d joined, %d ended, %d left out", got.GetAssignment().GetId(), len(got.GetJoined()), len(got.GetEnded()), got.GetLeftOut())
	}
}

// TestHostsOfAJobFindEachOther by what their nodes say that they are reached at, however long that is; nobody else is shown it, nor of nodes that
// were not placed.
func TestHostsOfAJobFindEachOther(t *testing.T) {
	addresses := func(kind string, a *task.Assignment) (found []string, shown *swarmv1.Assignment) {
		b, nodes := boardOf(a), map[string]*state.Node{}
		b.Tasks[a.Task] = &task.Task{Name: a.Task, Type: kind}
		for _, m := range a.Members {
			nodes[m.Node] = &state.Node{Name: m.Node, PeerID: m.PeerID, Host: strings.Repeat("a", task.MaxAddress)}
		}
		nodes[a.Members[1].Node].PeerID = "another"
		nodes[a.Members[2].Node].Host = "two words"
		delete(nodes, a.Members[3].Node)
		one, err := tasks.New(viewed{board: b, nodes: nodes}).GetAssignment(t.Context(), connect.NewRequest(&swarmv1.GetAssignmentRequest{Id: a.ID}))
		shown = answered(t, one.Msg, err).GetAssignment()
		for _, m := range shown.GetMembers() {
			if m.GetAddress() != "" {
				found = append(found, m.GetAddress())
			}
		}
		return found, shown
	}
	all, shown := addresses(task.RunJob, large(7, "", task.MaxApprovals))
	if want := strings.Repeat("a", task.MaxAddress); len(all) != task.MaxMembers-3 || all[0] != want || len(shown.GetApprovals()) == 0 {
		t.Errorf("%d addresses with %d approvals", len(all), len(shown.GetApprovals()))
	}
	if got, _ := addresses(task.RunSwarm, large(7, "", 0)); got != nil {
		t.Errorf("%d addresses in another task", len(got))
	}
	if got, _ := addresses(task.RunJob, over(large(7, "", 0), 1)); got != nil {
		t.Errorf("%d addresses in one that is over", len(got))
	}
}

// TestHowAJobEndedIsShown, and since when it was ready.
func TestHowAJobEndedIsShown(t *testing.T) {
	a := over(large(7, "", 0), 1)
	a.Shares, a.End, a.ReadySinceMS, a.JobTerms = true, task.EndTTL, 5, task.JobTerms{Done: task.DoneMain, ReadyMS: 6, LivesMS: 7, Together: true}
	one, err := tasks.New(viewed{board: boardOf(a)}).GetAssignment(t.Context(), connect.NewRequest(&swarmv1.GetAssignmentRequest{Id: a.ID}))
	shown := answered(t, one.Msg, err).GetAssignment()
	if shown.GetEnd() != "ttl" || shown.GetReadyUnixMs() != 5 || shown.GetDone() != "main" || shown.GetReadyMs() != 6 || shown.GetLivesMs() != 7 || !shown.GetTogether() {
		t.Errorf("it is shown as %s, ready since %d, done when %s", shown.GetEnd(), shown.GetReadyUnixMs(), shown.GetDone())
	}
}

// TestATaskrunnerShowsWhatHasJoined, also what is over, the last one first.
func TestATaskrunnerShowsWhatHasJoined(t *testing.T) {
	of := func(id uint64, joins string) *task.Assignment {
		a := large(id, joins, 0)
		a.Members, a.Hosts = a.Members[:1], a.Hosts[:1]
		return a
	}
	s := tasks.New(viewed{board: boardOf(over(of(4, ""), 1), of(5, "4"), over(of(6, "4"), 2), over(of(7, "4"), 3), over(of(8, "3"), 4))})
	r, err := s.GetTaskrunner(t.Context(), connect.NewRequest(&swarmv1.GetTaskrunnerRequest{Name: task.DefaultTaskrunner}))
	var ids []string
	for _, a := range append(answered(t, r.Msg, err).GetJoined(), r.Msg.GetEnded()...) {
		ids = append(ids, fmt.Sprint(a.GetId(), a.GetPhase(), len(a.GetMembers()), "@", a.GetFirstIndex()))
	}
	if got := strings.Join(ids, " "); got != "5preparing1@1 7over1@3 6over1@2" || r.Msg.GetLeftOut() != 0 {
		t.Errorf("got %s", got)
	}
}

// TestListAssignmentsHasRoom for those that live, then for those that ended last.
func TestListAssignmentsHasRoom(t *testing.T) {
	var all []*task.Assignment
	for i := range uint64(task.MaxLive + task.MaxOver) {
		a := &task.Assignment{Request: task.Request{ID: strconv.FormatUint(i+1, 10), Task: "t", By: strings.Repeat("b", 2048)}, Wants: strings.Repeat("w", 256), Reason: strings.Repeat("r", 256), CreatedMS: int64(i), Phase: task.Running} //nolint:gosec // few
		for range 16 {
			a.Groups = append(a.Groups, task.Group{Name: strings.Repeat("g", 63), Peers: 1})
		}
		if i >= task.MaxLive { // those that live are the oldest
			over(a, i)
		}
		all = append(all, a)
	}
	s := tasks.New(viewed{board: boardOf(all...)})
	r, err := s.ListAssignments(t.Context(), connect.NewRequest(&swarmv1.ListAssignmentsRequest{}))
	got := answered(t, r.Msg, err).GetAssignments()
	if r.Msg.GetLeftOut() == 0 || len(got)+int(r.Msg.GetLeftOut()) != len(all) || got[0].GetId() != "1" || got[task.MaxLive-1].GetId() != "64" || got[len(got)-1].GetId() != "320" {
		t.Errorf("%d, %d left out, from %s to %s", len(got), r.Msg.GetLeftOut(), got[0].GetId(), got[len(got)-1].GetId())
	}
	if first, second := got[task.MaxLive].GetCreatedUnixMs(), got[task.MaxLive+1].GetCreatedUnixMs(); second != first+1 {
		t.Errorf("after those that live come %d and %d", first, second)
	}
}
