package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/work"
)

// group is an SN's, whose state a test sets.
type group struct {
	mu      sync.Mutex
	view    *state.State
	changed chan struct{}
	looks   chan struct{} // one for each look of who follows
	behind  func() error  // nil: it has applied all that is committed
}

func newGroup() *group {
	return &group{view: &state.State{}, changed: make(chan struct{}), looks: make(chan struct{}, 8)}
}

func (g *group) View() *state.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.view
}

func (g *group) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looks <- struct{}{}
	return g.changed
}

func (g *group) Status() consensus.Status {
	return consensus.Status{Leads: true, HasLeader: true, Term: 3, Committed: 12, Applied: 11, LogEntries: 7, LogBytes: 900, Voters: 3, Servers: 4, Queue: 2}
}

func (g *group) Barrier(context.Context) error {
	if g.behind != nil {
		return g.behind()
	}
	return nil
}

func (g *group) LedgerComplete() error { return errors.New("records are missing") }

// set gives the group another state, and returns when who follows it has taken that.
func (g *group) set(nodes map[string]*state.Node, contracts ...*state.Contract) {
	v := &state.State{Nodes: nodes, Contracts: map[string]*state.Contract{}, Ledger: &ledger.Head{Length: 5, Bytes: 500}}
	for _, c := range contracts {
		v.Contracts[c.Name] = c
	}
	<-g.looks
	for range 2 { // that it looks for the second change says that it has taken the first
		g.mu.Lock()
		g.view = v
		close(g.changed)
		g.changed = make(chan struct{})
		g.mu.Unlock()
		<-g.looks
	}
	g.looks <- struct{}{}
}

func idle(string) planner.Status { return planner.Status{} }

// TestRaft: what an SN knows of its group.
func TestRaft(t *testing.T) {
	s, at := open(t)
	took := s.Committed()
	g := newGroup()
	s.Raft(g, idle)
	g.set(map[string]*state.Node{
		"sn-1": {Name: "sn-1", Role: "sn", PeerID: "p1", Live: true}, "sl-1": {Name: "sl-1", Role: "sl", PeerID: "p2"}, "sl-2": {Name: "sl-2", Role: "sl", PeerID: "p3", LeftReason: "stopped"},
	})
	took(7 * time.Millisecond)
	body := read(t, at)
	has(t, body, "swarmd_raft_is_leader 1", "swarmd_raft_has_leader 1", "swarmd_raft_term 3", "swarmd_raft_commit_index 12", "swarmd_raft_applied_index 11", "swarmd_raft_log_entries 7",
		"swarmd_raft_log_size_bytes 900", "swarmd_raft_voters 3", "swarmd_raft_servers 4", "swarmd_raft_queue_length 2", "swarmd_ledger_complete 0", "swarmd_ledger_records 5", "swarmd_ledger_size_bytes 500",
		`swarmd_raft_commit_duration_seconds_bucket{le="0.005"} 0`, `swarmd_raft_commit_duration_seconds_bucket{le="0.01"} 1`,
		`swarmd_node_up{name="sn-1",role="sn"} 1`, `swarmd_node_up{name="sl-1",role="sl"} 0`, `swarmd_assignments{phase="running"} 0`)
	if strings.Contains(body, "sl-2") {
		t.Error("a node that left is told of")
	}
	promtool(t, body)
}

// TestAssignments are told of by phase, tasks that wait for hosts among them.
func TestAssignments(t *testing.T) {
	s, at := open(t)
	g := newGroup()
	g.view = &state.State{Tasks: &task.Board{Assignments: map[string]*task.Assignment{
		"a": {Phase: task.Waiting}, "b": {Phase: task.Waiting}, "c": {Phase: task.Running}, "d": {Phase: task.Over},
	}}}
	s.Raft(g, idle)
	body := read(t, at)
	has(t, body, `swarmd_assignments{phase="waiting"} 2`, `swarmd_assignments{phase="running"} 1`, `swarmd_assignments{phase="over"} 1`, `swarmd_assignments{phase="ending"} 0`)
	promtool(t, body)
}

// TestAttemptsAreCounted over commits, failures, resets, and states that were never seen.
func TestAttemptsAreCounted(t *testing.T) {
	s, at := open(t)
	g := newGroup()
	s.Raft(g, func(string) planner.Status {
		return planner.Status{Waiting: planner.Waiting{Kind: planner.WaitPeers, Since: time.Unix(1_800_000_000, 0)}}
	})
	plan := func(run, round, attempt uint64) *state.Plan {
		return &state.Plan{Run: run, Round: round, Attempt: attempt}
	}
	committed := func(round, attempt uint64) *state.CommittedRound {
		return &state.CommittedRound{Round: round, Attempt: attempt, PlannedMS: 1000, CommittedMS: 1300, Participants: []string{"a", "b"}}
	}
	want := func(rounds, all, failed int) {
		t.Helper()
		has(t, read(t, at), fmt.Sprintf(`swarmd_contract_rounds_total{contract="study"} %d`, rounds), fmt.Sprintf(`swarmd_contract_attempts_total{contract="study"} %d`, all),
			fmt.Sprintf(`swarmd_contract_attempts_failed_total{contract="study"} %d`, failed))
	}
	sessions := map[string]*state.Session{
		"1": {Run: 1, Node: "a", State: state.SessionOpen}, "2": {Run: 1, Node: "b", State: state.SessionClosed}, "3": {Run: 1, Node: "c", State: state.SessionEnded},
	}
	g.set(nil, &state.Contract{Name: "study", Run: 1, Committed: committed(4, 9), Sessions: sessions})
	want(4, 0, 0) // what was before is not known
	has(t, read(t, at), `swarmd_sessions{contract="study",state="open"} 1`, `swarmd_sessions{contract="study",state="closed"} 1`, `swarmd_contract_participants{contract="study"} 2`,
		`swarmd_contract_waiting{contract="study",reason="peers"} 1`, `swarmd_contract_waiting_since_timestamp_seconds{contract="study"} 1.8e+09`)
	g.set(nil, &state.Contract{Name: "study", Run: 1, Committed: committed(4, 9), Plan: plan(1, 5, 1), Attempt: 1})
	want(4, 1, 0)
	g.set(nil, &state.Contract{Name: "study", Run: 1, Committed: committed(4, 9), Attempt: 1}) // it was given up
	want(4, 1, 1)
	g.set(nil, &state.Contract{Name: "study", Run: 1, Committed: committed(4, 9), Plan: plan(1, 5, 3), Attempt: 3}) // the second was not seen
	want(4, 3, 2)
	g.set(nil, &state.Contract{Name: "study", Run: 1, Committed: committed(5, 4), Plan: plan(1, 6, 1), Attempt: 1}) // nor the third's end, nor the fourth
	want(5, 5, 3)
	g.set(nil, &state.Contract{Name: "study", Run: 1, Committed: committed(6, 1)})
	want(6, 5, 3)
	has(t, read(t, at), `swarmd_round_duration_seconds_bucket{le="0.25"} 0`, `swarmd_round_duration_seconds_bucket{le="0.5"} 2`)
	g.set(nil, &state.Contract{Name: "study", Run: 2, Plan: plan(2, 1, 2), Attempt: 2})
	want(0, 7, 4)
	g.set(nil)
	if body := read(t, at); strings.Contains(body, "study") {
		t.Errorf("a contract that is gone is told of:\n%s", ours(body))
	}
}

// TestReplayIsNotCounted: what an SN applies again at its start is no attempt of now, nor is a model that was taken over from a backup.
func TestReplayIsNotCounted(t *testing.T) {
	s, at := open(t)
	g := newGroup()
	asked, answer := make(chan struct{}), make(chan error)
	g.behind = func() error {
		asked <- struct{}{}
		return <-answer
	}
	s.Raft(g, idle)
	view := func(c *state.Contract) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.view = &state.State{Contracts: map[string]*state.Contract{c.Name: c}}
		close(g.changed)
		g.changed = make(chan struct{})
	}
	<-asked
	view(&state.Contract{Name: "study", Run: 1})
	answer <- errors.New("there is no leader")
	<-asked
	view(&state.Contract{Name: "study", Run: 1, Committed: &state.CommittedRound{Round: 7, Attempt: 1, PlannedMS: 1, CommittedMS: 2}, Attempt: 9})
	answer <- nil
	g.set(nil, &state.Contract{Name: "study", Run: 1, Committed: &state.CommittedRound{Round: 7, Attempt: 1, PlannedMS: 1, CommittedMS: 2}, Attempt: 10})
	has(t, read(t, at), `swarmd_contract_attempts_total{contract="study"} 1`, `swarmd_contract_attempts_failed_total{contract="study"} 1`, "swarmd_round_duration_seconds_count 0")
	g.set(nil, &state.Contract{Name: "study", Run: 1, Committed: &state.CommittedRound{Round: 9, PlannedMS: 5, CommittedMS: 5}})
	has(t, read(t, at), "swarmd_round_duration_seconds_count 0")
}

// TestPanicOfAPart: the answer says that a part is missing, and has the others.
func TestPanicOfAPart(t *testing.T) {
	s, at := open(t)
	g := newGroup()
	s.Raft(g, func(string) planner.Status { panic("a defect") })
	g.set(nil, &state.Contract{Name: "study", Run: 1})
	body := read(t, at)
	has(t, body, `swarmd_node_info{name="sn-1",role="sn"} 1`, "swarmd_raft_term 3")
	has(t, read(t, at), "swarmd_raft_term 3") // it holds no lock
}

// TestLeaderIsAskedSeldom: scrapes that follow each other closely cost him one look at each contract.
func TestLeaderIsAskedSeldom(t *testing.T) {
	s, at := open(t)
	g := newGroup()
	asked := 0
	s.Raft(g, func(string) planner.Status {
		asked++
		return planner.Status{Waiting: planner.Waiting{Kind: planner.WaitPeers}}
	})
	g.set(nil, &state.Contract{Name: "study", Run: 1})
	for range 5 {
		has(t, read(t, at), `swarmd_contract_waiting{contract="study",reason="peers"} 1`)
	}
	if asked != 1 {
		t.Errorf("the leader was asked %d times", asked)
	}
}

// TestCloseWaitsForAnswers that are being made.
func TestCloseWaitsForAnswers(t *testing.T) {
	at := free(t)
	s, err := metrics.Open(t.Context(), config(at))
	if err != nil {
		t.Fatal(err)
	}
	g := newGroup()
	asked, answered := make(chan struct{}), make(chan struct{})
	s.Raft(g, func(string) planner.Status {
		close(asked)
		for { // until Close has begun
			c, err := net.Dial("tcp", at)
			if err != nil {
				break
			}
			c.Close()
		}
		close(answered)
		return planner.Status{}
	})
	g.set(nil, &state.Contract{Name: "study", Run: 1})
	go func() {
		res, err := http.Get("http://" + at + metrics.Path) //nolint:noctx // Close ends it
		if err == nil {
			res.Body.Close()
		}
	}()
	<-asked
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-answered:
	default:
		t.Error("an answer was still being made")
	}
}

// TestNamesHaveABound: with more contracts and nodes than that the rest is one, and what is gone makes room.
func TestNamesHaveABound(t *testing.T) {
	s, at := open(t)
	g := newGroup()
	s.Raft(g, func(string) planner.Status {
		return planner.Status{Waiting: planner.Waiting{Kind: planner.WaitTraining}}
	})
	nodes, contracts := map[string]*state.Node{}, []*state.Contract{}
	for i := range 500 {
		name := fmt.Sprintf("n-%03d", i)
		nodes[name] = &state.Node{Name: name, Role: "sl", PeerID: name, Live: i != 499}
		contracts = append(contracts, &state.Contract{Name: name, Run: 1, Committed: &state.CommittedRound{Round: 2}})
	}
	g.set(nodes, contracts...)
	body := read(t, at)
	for metric, most := range map[string]int{"swarmd_node_up{": 257, "swarmd_contract_rounds_total{": 65, "swarmd_contract_attempts_total{": 65, "swarmd_contract_waiting{": 64, "swarmd_sessions{": 130} {
		if n := strings.Count(body, "\n"+metric); n != most {
			t.Errorf("%s: %d series, want %d", metric, n, most)
		}
	}
	has(t, body, fmt.Sprintf(`swarmd_contract_rounds_total{contract="other"} %d`, 2*(500-64)))
	g.set(nodes, contracts[:450]...)
	has(t, read(t, at), fmt.Sprintf(`swarmd_contract_rounds_total{contract="other"} %d`, 2*(500-64))) // a counter does not fall
	g.set(nodes, contracts[499])
	has(t, read(t, at), `swarmd_contract_rounds_total{contract="n-499"} 2`)
}

// TestConnectionsOfTheAPI counts those that are open.
func TestConnectionsOfTheAPI(t *testing.T) {
	s, at := open(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	ln := s.API(inner)
	for range 2 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	a, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	has(t, read(t, at), "swarmd_api_connections 2")
	a.Close()
	a.Close()
	has(t, read(t, at), "swarmd_api_connections 1")
	b.Close()
}

// script is an exchange, and a program's node, that do what a test says.
type script struct {
	session.Exchange
	bridge.Handler
	done   *round.Done
	failed *round.Failed
	answer wire.SyncResponse
	err    error
}

func (x *script) Merge(context.Context, session.Job) (*round.Done, *round.Failed) {
	return x.done, x.failed
}

func (x *script) Sync(context.Context, wire.SyncRequest) (wire.SyncResponse, error) {
	return x.answer, x.err
}

func (x *script) Close(context.Context, wire.CloseRequest) (wire.SyncResponse, error) {
	return x.answer, x.err
}

func (x *script) Status() map[string]any {
	return map[string]any{"phase": "merging", "merge_sent_bytes": uint64(10), "merge_received_bytes": uint64(20), "model_bytes": int64(30)}
}

func (x *script) View() *round.View { return &round.View{} }

// TestAttemptsOfAnSL: each is counted by how it went, and by its cause.
func TestAttemptsOfAnSL(t *testing.T) {
	s, at := open(t)
	x := &script{}
	measured := s.Exchange(x)
	for _, f := range []*round.Failed{
		{Blamed: "sn-1"}, {}, {Blamed: "sl-2", HeardFrom: "sl-3"}, {Blamed: "sl-2", Unreached: &round.Unreached{}}, {Blamed: "sl-2"}, {Blamed: "sl-2"}, nil,
	} {
		x.failed = f
		measured.Merge(t.Context(), session.Job{})
	}
	x.done, x.failed = &round.Done{}, nil
	if done, failed := measured.Merge(t.Context(), session.Job{}); done != x.done || failed != nil {
		t.Error(done, failed)
	}
	body := read(t, at)
	has(t, body, `swarmd_attempts_total{outcome="done"} 1`, `swarmd_attempts_total{outcome="failed"} 6`, `swarmd_attempts_total{outcome="superseded"} 1`,
		`swarmd_attempt_failures_total{cause="local"} 1`, `swarmd_attempt_failures_total{cause="unknown"} 1`, `swarmd_attempt_failures_total{cause="told"} 1`,
		`swarmd_attempt_failures_total{cause="unreached"} 1`, `swarmd_attempt_failures_total{cause="peer"} 2`)
	promtool(t, body)
}

// TestPhases: a call that is repeated is one, training lies between two calls, and a model that others merged was waited for.
func TestPhases(t *testing.T) {
	s, at := open(t)
	x := &script{done: &round.Done{}}
	exchange, program := s.Exchange(x), s.Program(x, x)
	counts := func(training, waiting, exchange, commit int) {
		t.Helper()
		body := read(t, at)
		for phase, n := range map[string]int{"training": training, "waiting": waiting, "exchange": exchange, "commit": commit} {
			has(t, body, fmt.Sprintf(`swarmd_round_phase_duration_seconds_count{phase=%q} %d`, phase, n))
		}
	}
	sync := func(seq uint64) {
		if _, err := program.Sync(t.Context(), wire.SyncRequest{Session: "s", Seq: seq}); !errors.Is(err, x.err) {
			t.Fatal(err)
		}
	}
	x.err = &bridge.PendingError{}
	sync(1)
	sync(1)
	counts(0, 0, 0, 0)
	exchange.Merge(t.Context(), session.Job{})
	x.err, x.answer = nil, wire.SyncResponse{Round: 1, Contributed: true}
	sync(1)
	sync(1) // its answer was lost
	counts(0, 1, 1, 1)
	x.answer = wire.SyncResponse{Round: 2}
	sync(2) // others merged
	counts(1, 2, 1, 1)
	x.answer = wire.SyncResponse{Round: 3, Contributed: true, TrainingOver: true}
	if _, err := program.Close(t.Context(), wire.CloseRequest{Session: "s", Seq: 2}); err != nil {
		t.Fatal(err)
	}
	counts(2, 3, 1, 1)
	sync(3)
	counts(2, 4, 1, 1) // the program trained no more
	body := read(t, at)
	has(t, body, `swarmd_program_models_total{contributed="true"} 3`, `swarmd_program_models_total{contributed="false"} 1`, `swarmd_session_phase{phase="merging"} 1`, `swarmd_session_phase{phase="training"} 0`,
		`swarmd_merge_bytes_total{direction="sent"} 10`, `swarmd_merge_bytes_total{direction="received"} 20`, "swarmd_model_size_bytes 30")
	promtool(t, body)
}

// TestMembers are counted by type and state as the host has seen them last, and a scrape asks no executor.
func TestMembers(t *testing.T) {
	s, at := open(t)
	made := s.Members(func(swop.Given) map[string]work.Type {
		return map[string]work.Type{task.RunJob: {Executor: struct{ work.Executor }{}}, task.RunSwarm: {Executor: struct{ work.Executor }{}}, "none": {}}
	})(swop.Given{})
	if len(made) != 3 {
		t.Fatal(made)
	}
	if body := read(t, at); strings.Contains(body, "swarmd_task_") {
		t.Errorf("before the host has looked:\n%s", ours(body))
	}
	of := func(states ...task.State) (found []work.Found) {
		for _, s := range states {
			found = append(found, work.Found{Status: work.Status{State: s}})
		}
		return found
	}
	made[task.RunJob].Saw(of(task.Ready, task.Ready, task.Ready), nil)
	made[task.RunJob].Saw(of(task.Started, task.Started, task.Exited), nil)
	made[task.RunSwarm].Saw(of(task.Started), nil)
	made[task.RunSwarm].Saw(nil, errors.New("the engine does not answer"))
	body := read(t, at)
	has(t, body, `swarmd_task_members{state="started",task_type="RUN_JOB"} 2`, `swarmd_task_members{state="exited",task_type="RUN_JOB"} 1`, `swarmd_task_members{state="ready",task_type="RUN_JOB"} 0`,
		`swarmd_task_look_failed{task_type="RUN_JOB"} 0`, `swarmd_task_look_failed{task_type="RUN_SWARM"} 1`)
	if strings.Contains(body, `swarmd_task_members{state="started",task_type="RUN_SWARM"}`) {
		t.Errorf("members that nobody could see:\n%s", ours(body))
	}
	promtool(t, body)
}
