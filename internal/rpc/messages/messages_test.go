package messages_test

import (
	"slices"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/rpc/messages"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

func TestViewShowsEveryField(t *testing.T) {
	node, session, part := rpctest.Filled[state.Node](), rpctest.Filled[state.Session](), rpctest.Filled[state.Participant]()
	node.Name, session.Node, part.Node = "sl-0", "sl-0", "sl-0"
	plan, round := rpctest.Filled[state.Plan](), rpctest.Filled[state.CommittedRound]()
	plan.Participants = []state.Participant{part}
	rules, lost, skips, adopted := rpctest.Filled[state.Rules](), rpctest.Filled[state.LostModel](), rpctest.Filled[state.Skips](), rpctest.Filled[state.AdoptedRound]()
	halt := rpctest.Filled[state.Halt]()
	s := &state.State{Nodes: map[string]*state.Node{"sl-0": &node}}
	c := state.Contract{
		Name: "c", Run: 2, Terms: &state.Terms{LayoutDigest: "d", Layout: []byte("l"), Method: "mean", MinPeers: 1, Leaves: 3, Weights: state.WeightsSamples},
		ExpectedPeers: 4, Sessions: map[string]*state.Session{"x": &session}, Committed: &round, Plan: &plan, Over: true,
		PendingReason: "r", CreatedMS: 5, Rules: &rules, Lost: &lost, Skips: &skips, Adopted: &adopted, Halt: &halt,
	}
	view := messages.View(s, &c, 7)
	rpctest.Full(t, view, "packed")
	rpctest.Full(t, view.GetTerms(), "layout")
	rpctest.Full(t, view.GetSessions()[0], "progress", "expected_base", "ranks")
	rpctest.Full(t, view.GetPlan())
	rpctest.Full(t, view.GetPlan().GetParticipants()[0])
	rpctest.Full(t, view.GetCommitted())
	rpctest.Full(t, view.GetRules())
	rpctest.Full(t, view.GetLostModel())
	rpctest.Full(t, view.GetSkips())
	rpctest.Full(t, view.GetHalt())
	rpctest.Full(t, view.GetAdoptedRound())
	session.Run, session.State = 2, state.SessionOpen
	ended := session
	ended.State = state.SessionEnded
	c.Sessions["y"] = &ended
	rpctest.Full(t, messages.Summary(&c))
	ban := rpctest.Filled[state.Ban]()
	rpctest.Full(t, messages.Ban(&ban))
	rpctest.Full(t, messages.Use(rpctest.Filled[state.Use]()))
}

// TestRankedView: sessions that have not ended say how many ranks their programs have.
func TestRankedView(t *testing.T) {
	beside := func(sl string) *task.Assignment {
		return &task.Assignment{Request: task.Request{Groups: []task.Group{{Peers: 2}}, JobTerms: task.JobTerms{Beside: sl}}, Phase: task.Running}
	}
	s := &state.State{Tasks: &task.Board{Assignments: map[string]*task.Assignment{"1": beside("sl-0"), "2": beside("sl-9")}}}
	c := state.Contract{Name: "c", Sessions: map[string]*state.Session{
		"a": {ID: "a", Node: "sl-0", Order: 1, State: state.SessionEnded}, "b": {ID: "b", Node: "sl-0", Order: 2, State: state.SessionOpen},
		"c": {ID: "c", Node: "sl-1", Order: 3, State: state.SessionOpen},
	}}
	var got []uint32
	for _, x := range messages.RankedView(s, &c, 1).GetSessions() {
		got = append(got, x.GetRanks())
	}
	if !slices.Equal(got, []uint32{0, 3, 0}) {
		t.Errorf("ranks of sessions: %v", got)
	}
}
