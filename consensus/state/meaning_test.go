package state_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
)

// judged are entries that are taken or refused by rules of their own: how many words there are on a host's part and whose gives way, what
// renews one, who keeps the rights, what joins what.
func judged() []state.Command {
	word := func(by string, host int, nonce byte, refuse bool) state.Command {
		p := state.PartOfHost{Assignment: "7", Task: "pull", Digest: pullOfAssigned, Taskrunner: "tr", Host: fmt.Sprint("swop-", host), By: "spiffe://" + by, AtMS: 20, Order: &ledger.Order{Nonce: []byte{nonce}, Request: []byte("{}")}}
		if refuse {
			return state.RefuseTask{PartOfHost: p, Reason: "why"}
		}
		return state.ApproveTask{PartOfHost: p}
	}
	all := append(assigned(), moves(placed("swop-0")))
	for i := range task.MaxApprovals + 3 {
		all = append(all, word(fmt.Sprintf("%c.example/swarm/swci/%d", "aab"[i%3], i), 0, byte(i), i%5 == 0))
	}
	all = append(all,
		word("b.example/swarm/swci/17", 0, 17, false), // the very same
		word("b.example/swarm/swci/17", 0, 99, false), // signed anew
		word("b.example/swarm/swci/17", 0, 98, true),
		word("a.example/swarm/swci", 0, 97, false), // who asked for it
		word("b.example/swarm/swci/1", 1, 96, false),
	)
	const ann, all3 = "spiffe://a.example/swarm/swci/ann", "Allow spiffe://a.example/swarm/swci/* to manage all-resources"
	for i, sentences := range [][]string{
		{"Allow " + ann + " to manage tasks"},
		{"allow " + ann + " to manage rights"},
		{"Allow " + ann + "  to manage rights"},
		{"Allow " + ann + " to manage rights where node.name='x'"},
		{"Allow spiffe://b.example/**, " + ann + " to manage rights", "of a later version"},
		{all3},
		{all3},
		{"Allow spiffe://b.example/** to manage rights"},
		{},
		{all3, ""},
	} {
		all = append(all, state.SetRights{Sentences: sentences, By: ann, AtMS: int64(30 + i)})
	}
	join := func(id, joins, host string) state.Command {
		return state.AssignTask{Assignment: task.Request{ID: id, Task: "pull", Taskrunner: "tr", Joins: joins, Hosts: []string{host}, Groups: []task.Group{{Name: "peers", Peers: 1, Least: 1}}}, AtMS: 50}
	}
	all = append(all, join("8", "7", "swop-0"), join("8", "7", "swop-1"), join("9", "8", "swop-1"), join("9", "7", "swop-1"),
		state.ResetTaskrunner{Taskrunner: "tr", AtMS: 51}, join("9", "7", "swop-1"), moves(task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "swop-0", State: task.Stopped, Cleaned: true}}, Do: task.Close}),
		moves(task.Move{Assignment: "8", Do: task.Close}))
	for _, strict := range []bool{false, true} {
		id := map[bool]string{false: "10", true: "11"}[strict]
		twice, once := task.Placement{Node: "swop-0", Group: "peers", Peers: 1}, task.Move{Assignment: id, Do: task.Place}
		once.Members = []task.Placement{twice}
		all = append(all,
			state.AssignTask{Assignment: task.Request{ID: id, Task: "pull", Hosts: []string{"swop-0"}, Retries: 1, Groups: []task.Group{{Name: "peers", Peers: 1, Least: 1}}}, AtMS: 60, Strict: strict},
			moves(task.Move{Assignment: id, Do: task.Place, Members: []task.Placement{twice, twice}}), moves(once),
			moves(task.Move{Assignment: id, Epoch: 1, Reports: []task.Report{{Node: "swop-0", State: task.Prepared}, {Node: "swop-0", Member: 1, State: task.Prepared}}}),
			moves(task.Move{Assignment: id, Epoch: 1, Do: task.Pass}),
			moves(task.Move{Assignment: id, Epoch: 1, Reports: []task.Report{{Node: "swop-0", State: task.Exited}}, Do: task.Judge, Verdict: task.Failed}),
			moves(task.Move{Assignment: id, Epoch: 1, Reports: []task.Report{{Node: "swop-0", State: task.Exited}}, Do: task.Judge, Verdict: task.Succeeded}),
		)
	}
	return all
}

// pullOfAssigned is the digest of the task that assigned makes.
const pullOfAssigned = "bcb9bb3064b72e2c289ab3d65cdfd658e84f5041e9d98ce8cb90b2d1d4d9db09"

// TestEntriesMeanWhatTheyMeant: a server that replays the log comes to the state that another has in its snapshot, whatever versions they are.
// So a rule by which an entry is taken or refused never changes: another one is of entries with another field, as AssignTask.Whole is one. No flag
// rewrites the golden file. It is of the rules as they stand now; what builds between the first commit of tasks and this one have written was
// in no release.
func TestEntriesMeanWhatTheyMeant(t *testing.T) {
	var got strings.Builder
	s := state.New()
	for i, c := range judged() {
		next, result, err := s.Apply(c)
		snapshot, encodeErr := state.EncodeSnapshot(next)
		if encodeErr != nil {
			t.Fatal(encodeErr)
		}
		fmt.Fprintf(&got, "%d %s changed=%t %s %x\n", i, c.Type(), result.Changed, state.ReasonOf(err), sha256.Sum256(snapshot))
		s = next
	}
	want, err := os.ReadFile("testdata/meaning.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("entries mean something else than they did (-want +got):\n%s", diff)
	}
}
