package state_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/claim"
	"github.com/swarmd/swarmd/identity/naming"
)

// FuzzApply plays sequences of all types of commands, with fields at their bounds. Whatever is proposed, Apply does not fail but by
// rejecting, the state keeps its invariants and its sums, the encoded state stays within its bound and can be read back, and the
// ledger's lines follow each other. No contract's name ever has the same run twice.
func FuzzApply(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12"))
	f.Add([]byte(strings.Repeat("\x02\x00\x07\x02\x01\x07\x05\x00\x07\x05\x01\x07\x08\x00\x07\x0a\x00\x07", 4)))
	f.Add([]byte(strings.Repeat("\x02\x00\xff\x05\x00\xff\x07\x00\xff", 20)))
	f.Add([]byte(wholeStory))
	f.Add([]byte(tasksStory))
	f.Fuzz(func(t *testing.T, b []byte) { play(t, b) })
}

// wholeStory is a training under rules of an operator's, with a round that is skipped, one that is committed, and one whose model is lost,
// until the contract is deleted. Then it begins again.
var wholeStory = strings.Repeat("\x02\x08\x00\x10\x08\x10\x05\x08\x0f\x09\x08\x0f\x0b\x08\x02\x09\x08\x0f\x0c\x08\x0f\x11\x08\x1f\x11\x08\x0f\x09\x08\x0f\x0b\x08\x01\x08\x08\x0f\x0f\x08\x08", 2)

// tasksStory registers a host, writes a task and has it carried out, until the task is deleted.
var tasksStory = "\x02\x08\x20" + strings.Repeat("\x14\x08\x00\x14\x08\x08\x14\x08\x10\x14\x08\x28\x14\x08\x30\x14\x09\x43\x14\x09\x41\x14\x08\x30\x14\x08\x30\x14\x08\x30\x14\x08\x30\x14\x08\x30\x14\x08\x40\x14\x08\x30\x14\x08\x30\x14\x08\x18", 2)

// TestApplyAtTheBounds plays some of FuzzApply's sequences that are at random, and one in which commands build on each other.
func TestApplyAtTheBounds(t *testing.T) {
	story := play(t, []byte(wholeStory))
	tasks := play(t, []byte(tasksStory))
	for _, kind := range []string{"create_task", "edit_task", "finalise_task", "assign_task", "approve_task", "refuse_task", "move_assignments", "delete_task"} {
		if tasks[kind] < 1 {
			t.Errorf("%s was never accepted in a story of tasks", kind)
		}
	}
	for _, kind := range []string{"open_session", "plan_round", "cancel_plan", "skip_round", "commit_round", "record_fetch", "lose_model", "close_session", "delete_contract", "ordered"} {
		if story[kind] < 2 {
			t.Errorf("%s was accepted %d times in a story that is told twice", kind, story[kind])
		}
	}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		play(t, b)
	}
}

// play applies a command for every three bytes. It returns how many of each type were accepted, and how many of all with an order.
func play(t *testing.T, b []byte) map[string]int {
	t.Helper()
	accepted := map[string]int{}
	const room = 64 << 10
	s, head, runs := state.New().WithRoom(room), ledger.Head{}, map[string]uint64{}
	for i := 0; len(b) >= 3 && i < 300; i++ {
		c := fuzzCommand(s, b[0], b[1], b[2], int64(i))
		b = b[3:]
		next, result, err := s.Apply(c)
		if err != nil && state.ReasonOf(err) == "" {
			t.Fatalf("%d: %s: %v", i, c.Type(), err)
		}
		if err := state.CheckChange(s, next); err != nil {
			t.Fatalf("%d: %s: %v", i, c.Type(), err)
		}
		for _, line := range result.Records {
			if head, err = ledger.Follow(head, line); err != nil {
				t.Fatalf("%d: %s: %v", i, c.Type(), err)
			}
		}
		if result.Changed {
			accepted[c.Type()]++
			if o, ok := c.(state.Ordered); ok && o.OrderOf() != nil {
				accepted["ordered"]++
			}
		}
		checkRuns(t, c, s, next, runs)
		if s = next; i%16 == 0 || len(b) < 3 {
			checkWhole(t, s, 4*room)
		}
	}
	return accepted
}

// checkRuns holds that a contract that a command has made begins behind all runs that its name has had, and notes the runs.
func checkRuns(t *testing.T, c state.Command, old, s *state.State, runs map[string]uint64) {
	t.Helper()
	for name, x := range s.Contracts {
		if old.Contracts[name] == nil && x.Run <= runs[name] {
			t.Fatalf("%s: contract %s begins with run %d, and was in run %d before", c.Type(), name, x.Run, runs[name])
		}
		runs[name] = max(runs[name], x.Run)
	}
	if e, ok := c.(state.ExpireContract); ok && e.Run == 0 && s.Contracts[e.Contract] == nil {
		delete(runs, e.Contract) // logs of before the run was kept begin at 1 again
	}
}

// checkWhole holds a state to its invariants and to what is written of it.
func checkWhole(t *testing.T, s *state.State, limit int) {
	t.Helper()
	if err := state.Check(s); err != nil {
		t.Fatal(err)
	}
	b, err := state.EncodeSnapshot(s)
	if err != nil || len(b) > limit || len(b) != s.Size() {
		t.Fatalf("%d bytes, %d by the running sum, at most %d: %v", len(b), s.Size(), limit, err)
	}
	again, err := state.DecodeSnapshot(b)
	if err != nil {
		t.Fatal(err)
	}
	if b2, err := state.EncodeSnapshot(again); err != nil || !bytes.Equal(b, b2) || again.Size() != s.Size() {
		t.Fatalf("what was read back differs: %v", err)
	}
}

// atBound are texts that are as long as they may be, as they are and as they are encoded, and longer.
func atBound(n byte, limit int) string {
	switch n % 8 {
	case 1:
		return strings.Repeat("a", limit)
	case 2:
		return strings.Repeat("<", limit)
	case 3:
		return strings.Repeat("\u2028", limit/3)
	case 4:
		return strings.Repeat("a", limit+1)
	case 5:
		return strings.Repeat("ü", limit/2)
	case 6:
		return strings.Repeat("\x00", limit)
	}
	return "plain"
}

// fuzzCommand makes a command of every type that has a fair chance: kind chooses it, who its subject, and what its fields.
func fuzzCommand(s *state.State, kind, who, what byte, at int64) state.Command {
	node, contract := fmt.Sprintf("n-%d", who%5), []string{state.DefaultContract, "study", "study-2"}[who/5%3]
	c := s.Contracts[contract]
	if c == nil {
		c = &state.Contract{Run: 1}
	}
	session := hexOf(fmt.Sprintf("%d", int(who)*7+int(what)%3), 32)
	if active := c.Active(); len(active) > 0 && what%4 > 0 {
		session = active[int(who)%len(active)].ID
	}
	var parts []state.Participant
	active := c.Active()
	for i, a := range active {
		p := state.Participant{Session: a.ID, Node: a.Node, Weight: uint32(what) % 101, Seq: uint64(at)}
		if i == 0 {
			p.ShardLeaves = 7
		} else {
			p.ShardFirst = 7
		}
		parts = append(parts, p)
	}
	round, attempt := c.Round()+1, c.Attempt
	digest := hexOf("d", 64)
	switch kind % 21 {
	case 0:
		c := state.InitSwarm{SwarmID: atBound(what, 512), AtMS: at}
		if who%2 == 1 {
			c.Founder = &state.Admission{Name: node, PeerID: "key-" + node, By: atBound(who/8, 2048), AtMS: at}
		}
		return c
	case 1:
		return state.RecordBundle{TrustDomain: atBound(what, 255), Certificates: [][]byte{[]byte(atBound(who, 4<<10))}, AtMS: at}
	case 2, 3:
		n := state.Node{Name: node, Role: []string{"sl", "sl", "sl", "sn", "swop"}[what/8%5], PeerID: "key-" + node, Host: atBound(who, 512)}
		n.SPIFFEID = "spiffe://a.example/swarm/sl" + strings.Repeat("/"+node, int(who)/128)
		if n.Role == naming.RoleSWOP {
			n.SPIFFEID = "spiffe://a.example/swarm/swop"
		}
		return state.RegisterNode{Node: n, TokenHash: hexOf(fmt.Sprint(what%3), 64), AtMS: at, Signature: []byte(atBound(what, 1024)), Chain: [][]byte{[]byte(atBound(who, 4096))}}
	case 4:
		return state.SetLive{Node: node, Live: what%3 > 0, AtMS: at}
	case 5, 6:
		return state.OpenSession{
			Session: session, Contract: contract, Node: node, SyncFrequency: 1, Weight: uint32(what) % 102, Isolation: atBound(what, 256), Program: atBound(who/8, 256), KeepProgram: what%2 == 0, ExpectedPeers: uint32(what) * 5,
			Terms: state.Terms{LayoutDigest: hexOf(fmt.Sprint(what%2), 64), Layout: []byte(atBound(who, 2048))[min(int(what)%3*1024, len(atBound(who, 2048))):], Leaves: 7, Method: "mean", MinPeers: 1 + uint32(what)%3},
			AtMS:  at,
		}
	case 7:
		return state.EndSession{Session: session, Contract: contract, Run: c.Run, Reason: []string{"", state.EndNonFinite}[what/8%2] + atBound(what, 4096), AtMS: at}
	case 8:
		return state.CloseSession{Session: session, Contract: contract, Run: c.Run, CheckinMode: []string{"", "active", "inactive", "once"}[what%4], Seq: uint64(what), AtMS: at}
	case 9, 10:
		plan := state.PlanRound{
			Contract: contract, Run: c.Run, Round: round, Attempt: attempt + 1, Participants: parts, Final: c.FinalDue() && what%2 == 0,
			Reason: atBound(what, 512), AtMS: at, Epoch: c.Epoch() + uint64(what)%3, Allotted: what%4 > 0,
		}
		if given, err := allotted(s, c, plan); err == nil {
			plan.Participants = given
		}
		return plan
	case 11:
		if what%2 == 0 {
			return state.SkipRound{
				Contract: contract, Run: c.Run, Round: round, Attempt: attempt, Sessions: map[string]uint64{session: uint64(at)}, Reason: atBound(what, 512), AtMS: at,
			}
		}
		return state.CancelPlan{Contract: contract, Run: c.Run, Round: round, Attempt: attempt, Reason: atBound(what, 512), AtMS: at}
	case 12, 13:
		return state.CommitRound{Contract: contract, Run: c.Run, Round: round, Attempt: attempt, Digest: digest, NextInterval: 1, KeepCounted: what%2 == 0, AtMS: at, Signatures: [][]byte{[]byte(atBound(what, 1024))}}
	case 14:
		return state.FinishContract{Contract: contract, Run: c.Run, Round: c.Round(), Reason: atBound(what, 512), AtMS: at}
	case 15:
		return []state.Command{
			state.ResetContract{Contract: contract, Force: what%2 == 0, AtMS: at, Order: fuzzOrder(who, what)},
			state.DeleteContract{Contract: contract, Run: c.Run * uint64(what%3%2), Force: what%2 == 0, AtMS: at, Order: fuzzOrder(who, what)},
			state.PauseContract{Contract: contract, Run: c.Run * uint64(what%3%2), AtMS: at, Order: fuzzOrder(who, what)},
			state.ResumeContract{HaltOrder: state.HaltOrder{Contract: contract, AtMS: at, Order: fuzzOrder(who, what)}, KeepPace: what%2 == 0},
			state.EndContract{Contract: contract, Run: c.Run * uint64(what%3%2), AtMS: at, Order: fuzzOrder(who, what)},
		}[what/8%5]
	case 16:
		rules := state.Rules{Method: atBound(what, 512), MinPeers: uint32(who) % 3, NonFinite: []string{"", "fail"}[what%2], Export: what/64%2 == 0}
		if what%16 == 0 {
			rules = state.Rules{Export: true}
		}
		return state.CreateContract{Contract: contract, Rules: rules, AtMS: at, Order: fuzzOrder(who, what)}
	case 17:
		return []state.Command{
			state.FailContract{Contract: contract, Run: c.Run, Reason: atBound(what, 4096), Below: who%2 == 0, AtMS: at},
			state.LoseModel{Contract: contract, Run: c.Run, Round: c.Round(), Digest: digest, AtMS: at},
			state.ExpireContract{Contract: contract, Run: c.Run * uint64(what%2), AtMS: at + int64(who%2)*state.UnusedMS},
			state.RecordFetch{
				Contract: contract, Run: c.Run, Round: c.Round(), Digest: digest, By: "spiffe://a.example/swarm/" + atBound(who, 2048-25), Node: node, SeenMS: at,
				Signature: []byte(atBound(what, 1024)), AtMS: at,
			},
			fuzzAdoption(c, digest, what, at),
		}[what/8%5]
	case 18:
		return []state.Command{
			state.ForgetNode{Node: node, AtMS: at, Order: fuzzOrder(who, what)},
			state.LeaveNode{Node: node, TokenHash: hexOf("1", 64), Reason: atBound(what, 256), AtMS: at},
		}[what/8%2]
	}
	if kind%21 == 20 {
		return fuzzTask(s, who, what, at)
	}
	return []state.Command{
		state.BanNode{PeerID: "key-" + node, Reason: atBound(who, 256), By: "spiffe://a.example/swarm/swci", AtMS: at, Order: fuzzOrder(who, what)},
		state.UnbanNode{PeerID: "key-" + node, AtMS: at, Order: fuzzOrder(who, what)},
		state.AdmitNode{Node: node, PeerID: fmt.Sprintf("key-n-%d", (who+what/24%2)%5), By: atBound(what, 2048), AtMS: at, Order: fuzzOrder(who, what)},
		state.InviteNode{
			Node: node, SPIFFEID: "spiffe://a.example/swarm/sn/" + node, Key: claim.KeyOf(secretOf(fmt.Sprint(who % 4))), ExpiresMS: at + int64(what), By: atBound(what, 2048), AtMS: at,
			Order: fuzzOrder(who, what),
		},
		claiming(node, fmt.Sprintf("key-n-%d", (who+what/24%2)%5), fmt.Sprint(who%4), "spiffe://a.example/swarm/sn/"+node, s.SwarmID, at),
		state.SetRights{
			Sentences: []string{"Allow spiffe://a.example/** to manage rights", "Allow spiffe://a.example/** to use nodes where node.name='<" + atBound(who, 500) + "'"}[what/48%2:],
			By:        "spiffe://a.example/swarm/swci", AtMS: at, Order: fuzzOrder(who, what),
		},
	}[what/8%6]
}

// fuzzAdoption is a round of all who have a session, signed by all or, at times, by the first alone.
func fuzzAdoption(c *state.Contract, digest string, what byte, at int64) state.Command {
	a := state.AdoptRound{
		Contract: c.Name, Run: c.Run, Last: c.Round(), Round: c.Round() + 2 + uint64(what%8), NextInterval: 1, AtMS: at,
		Proof: ledger.Round{Contract: c.Name, Run: c.Run, Round: c.Round() + 1, Attempt: 1, Model: digest},
	}
	if c.Terms != nil {
		a.Proof.Method, a.Proof.Layout = c.Terms.Method, c.Terms.LayoutDigest
	}
	for i, s := range c.Active() {
		p := ledger.Participant{Node: s.Node, PeerID: s.PeerID, Session: s.ID, Weight: 1}
		if i == 0 && c.Terms != nil {
			p.ShardLeaves = c.Terms.Leaves
		}
		if i == 0 || what%2 == 0 {
			p.Signature = []byte(atBound(what, 1024))
		}
		a.Proof.Participants = append(a.Proof.Participants, p)
	}
	return a
}

// fuzzOrder is an operator's order, at times none, with fields at their bounds.
func fuzzOrder(who, what byte) *ledger.Order {
	if who%3 == 0 {
		return nil
	}
	request, err := json.Marshal(map[string]string{"reason": atBound(what, state.MaxOrderRequest-16)})
	if err != nil || what/8%4 > 0 {
		request = []byte(`{"contract":"study"}`)
	}
	chain := [][]byte{[]byte(atBound(what, state.MaxChainBytes))}
	witnessed := []ledger.Witness{{}, {Length: 1 + uint64(what%3), Hash: hexOf("a", 64)}}[who/4%2]
	return &ledger.Order{
		By: "spiffe://a.example/swarm/" + atBound(who, 2048-25), Method: atBound(what, 512), Request: request, AskedMS: int64(what), Nonce: []byte(atBound(what/16, 64)),
		Witnessed: witnessed, Signature: []byte(atBound(what, state.MaxSignature)), Chain: chain,
	}
}

// fuzzTask is a command of tasks: what chooses it, and its fields.
func fuzzTask(s *state.State, who, what byte, at int64) state.Command {
	name, runner, id := fmt.Sprintf("t-%d", who%3), []string{task.DefaultTaskrunner, "tr"}[who/3%2], fmt.Sprint(1+who/6%8)
	if live := s.Tasks.LiveIDs(); len(live) > 0 && what%8 < 6 {
		id = live[int(who)%len(live)]
	}
	order := fuzzOrder(who, what)
	switch what / 8 % 10 {
	case 0:
		return state.CreateTask{Task: name, TaskType: task.PullImage, Author: atBound(what, 160), Prereq: task.Root, Outcome: atBound(who/8, 160), CreatedBy: atBound(who/16, 2048), AtMS: at, Order: order}
	case 1:
		return state.EditTask{Task: name, Line: 1 + uint32(what%4), Text: []byte(atBound(what, 8<<10)), AtMS: at, Order: order}
	case 2:
		return state.FinaliseTask{Task: name, AtMS: at, Order: order}
	case 3:
		return state.DeleteTask{Task: name, Force: what%2 == 0, AtMS: at, Order: order}
	case 4:
		return []state.Command{
			state.CreateTaskrunner{Taskrunner: runner, AtMS: at, Order: order}, state.DeleteTaskrunner{Taskrunner: runner, AtMS: at, Order: order},
		}[what%2]
	case 5:
		return state.AssignTask{Assignment: task.Request{
			ID: id, Task: name, Taskrunner: runner, Retries: uint32(what % 3), By: atBound(who/16, 2048), Groups: []task.Group{{Name: "peers", Peers: 1 + uint32(what%4), Least: 1}},
		}, AtMS: at, Order: order, Strict: who%2 == 0}
	case 8:
		if a := s.Tasks.Whole().Assignments[id]; a != nil && what%2 == 1 && len(a.Members) > 0 {
			part := state.PartOfHost{
				Assignment: id, Task: a.Task, Digest: a.Digest, Taskrunner: a.Taskrunner, Host: a.Members[0].Node, By: atBound(who, 2048), AtMS: at, Order: order,
			}
			if what%4 == 1 {
				return state.RefuseTask{PartOfHost: part, Reason: atBound(what, task.MaxText)}
			}
			return state.ApproveTask{PartOfHost: part}
		}
		return state.CancelAssignment{Assignment: id, Reason: atBound(what, task.MaxText), AtMS: at, Order: order}
	case 9:
		return state.ResetTaskrunner{Taskrunner: runner, Reason: atBound(what, task.MaxText), AtMS: at, Order: order}
	}
	return state.MoveAssignments{AtMS: at, Moves: []task.Move{fuzzMove(s, id, who, what)}}
}

// fuzzMove is a move that fits the assignment as it stands, or nearly.
func fuzzMove(s *state.State, id string, who, what byte) task.Move {
	m := task.Move{Assignment: id, Why: atBound(what, task.MaxText), Verdict: []task.Verdict{task.Succeeded, task.Failed}[what/4%2]}
	a := s.Tasks.Whole().Assignments[id]
	if a == nil {
		return m
	}
	m.Epoch = a.Epoch
	for _, n := range s.NodesByRole(naming.RoleSWOP) {
		m.Members = append(m.Members, task.Placement{Node: n.Name, Group: "peers", Peers: 4})
	}
	states := []task.State{task.Prepared, task.Exited, task.Stopped, task.Lost, task.Ready, task.Refused, task.Asked, task.Stopped}
	if a.Phase == task.Preparing && what%8 < 4 || a.Phase == task.Running && what%8 == 1 {
		m.Do = task.Pass
	}
	for i, x := range a.Members {
		state := map[task.Phase]task.State{task.Preparing: task.Prepared, task.Running: task.Exited, task.Ending: task.Stopped, task.Waiting: task.Stopped}[a.Phase]
		if what%8 > 3 {
			state = states[who/32]
		}
		code := int32(0)
		if state == task.Exited {
			code = int32(what / 4 % 2)
		}
		m.Reports = append(m.Reports, task.Report{Member: uint32(i), Node: x.Node, State: state, Code: code, Text: atBound(what, task.MaxText), Cleaned: a.Phase != task.Preparing})
	}
	if m.Do == "" {
		m.Do = map[task.Phase]task.Act{task.Waiting: task.Place, task.Running: task.Judge, task.Ending: task.Close}[a.Phase]
	}
	return m
}
