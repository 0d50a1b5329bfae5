package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// TestRulesAreBounded: what no round could ever fulfil, or would fill the state, is refused.
func TestRulesAreBounded(t *testing.T) {
	many := make([]string, state.MaxRequired+1)
	for i := range many {
		many[i] = fmt.Sprintf("sl-%03d", i)
	}
	for name, rules := range map[string]state.Rules{
		"long method":         {Method: strings.Repeat("m", 600)},
		"two lines":           {Method: "mean\nmean"},
		"least of nothing":    {Least: 3},
		"too many peers":      {MinPeers: state.MaxMinPeers + 1},
		"fewer expected":      {MinPeers: 3, ExpectedPeers: 2},
		"method needs more":   {Method: "krum(f=2)", Least: 7, MinPeers: 3},
		"share above 1":       {MinWeightSharePPM: state.PPM + 1},
		"cap above 1":         {WeightCapPPM: state.PPM + 1},
		"cap below 1/min":     {WeightCapPPM: 300_000, MinPeers: 3},
		"unknown policy":      {NonFinite: "ignore"},
		"long wait":           {StallGraceMS: state.MaxWaitMS + 1},
		"too many required":   {Required: many},
		"bad required":        {Required: []string{"no name"}},
		"unsorted required":   {Required: []string{"b", "a"}},
		"required more often": {Required: []string{"a", "a"}},
		"many witnesses":      {Witnesses: state.MaxWitnesses + 1},
		"a single merger":     {Witnesses: 1},
	} {
		s := state.New()
		next, _, err := s.Apply(state.CreateContract{Contract: "study", Rules: rules})
		if reason := state.ReasonOf(err); reason != state.ReasonBadCommand && reason != state.ReasonTooFewPeers || next != s {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := state.New().Apply(state.CreateContract{Contract: "no name"}); state.ReasonOf(err) != state.ReasonBadCommand {
		t.Errorf("bad name: %v", err)
	}
	if _, _, err := state.New().Apply(state.CreateContract{Contract: "a", Rules: state.Rules{WeightCapPPM: 400_000, MinPeers: 3, Required: many[1:]}}); err != nil {
		t.Errorf("good rules: %v", err)
	}
}

// ruled is a contract of four sessions with these weights, under rules.
func ruled(t *testing.T, rules state.Rules, least uint32, weights ...uint32) *state.State {
	t.Helper()
	s := state.New()
	do := func(c state.Command) {
		t.Helper()
		next, _, err := s.Apply(c)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	do(state.CreateContract{Contract: state.DefaultContract, Rules: rules})
	for i, w := range weights {
		name := fmt.Sprintf("sl-%d", i)
		do(state.RegisterNode{Node: state.Node{Name: name, Role: naming.RoleSL, PeerID: name}, TokenHash: hexOf("1", 64)})
		terms := terms("a", 1)
		terms.Least = min(least, 1)
		do(state.OpenSession{Session: hexOf(fmt.Sprint(i+1), 32), Contract: state.DefaultContract, Node: name, Terms: terms, SyncFrequency: 1, Weight: w})
	}
	c := *s.Contracts[state.DefaultContract]
	withLeast := *c.Terms
	withLeast.Least = least
	c.Terms = &withLeast
	s.Contracts[state.DefaultContract] = &c
	return s
}

// TestPlanHoldsToTheRules: every rule is Apply's, not only the leader's.
func TestPlanHoldsToTheRules(t *testing.T) {
	type part struct {
		session int
		weight  uint32
	}
	enrolled := []uint32{50, 30, 10, 10}
	tests := []struct {
		name   string
		rules  state.Rules
		least  uint32
		parts  []part
		reason string
	}{
		{"no rules", state.Rules{}, 0, []part{{0, 50}}, ""},
		{"required is there", state.Rules{Required: []string{"sl-1"}}, 0, []part{{1, 30}}, ""},
		{"required is missing", state.Rules{Required: []string{"sl-0", "sl-1"}}, 0, []part{{1, 30}}, state.ReasonRequired},
		{"required never came", state.Rules{Required: []string{"sl-9"}}, 0, []part{{0, 50}, {1, 30}}, state.ReasonRequired},
		{"exact share", state.Rules{MinWeightSharePPM: 800_000}, 0, []part{{0, 50}, {1, 30}}, ""},
		{"too small a share", state.Rules{MinWeightSharePPM: 800_001}, 0, []part{{0, 50}, {1, 30}}, state.ReasonWeightShare},
		{"who contributes nothing has no share", state.Rules{MinWeightSharePPM: 800_000}, 0, []part{{0, 50}, {1, 0}}, state.ReasonWeightShare},
		{"exact cap", state.Rules{WeightCapPPM: 400_000}, 0, []part{{0, 40}, {1, 30}, {2, 30}}, ""},
		{"above the cap", state.Rules{WeightCapPPM: 400_000}, 0, []part{{0, 50}, {1, 30}, {2, 10}}, state.ReasonWeightCap},
		{"too few for the cap", state.Rules{WeightCapPPM: 400_000}, 0, []part{{0, 1}, {1, 1}}, state.ReasonWeightCap},
		{"weight 0 does not help the cap", state.Rules{WeightCapPPM: 400_000}, 0, []part{{0, 1}, {1, 1}, {2, 0}}, state.ReasonWeightCap},
		{"finer weights under a cap", state.Rules{WeightCapPPM: 400_000}, 0, []part{{0, 4000}, {1, 3000}, {2, 3000}}, ""},
		{"heavier than anybody may be", state.Rules{}, 0, []part{{0, 101}}, state.ReasonBadCommand},
		{"enough for the method", state.Rules{}, 3, []part{{0, 1}, {1, 1}, {2, 1}}, ""},
		{"too few for the method", state.Rules{}, 3, []part{{0, 1}, {1, 1}, {2, 0}}, state.ReasonTooFewPeers},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := ruled(t, tt.rules, tt.least, enrolled...)
			plan := state.PlanRound{Contract: state.DefaultContract, Run: 1, Round: 1, Attempt: 1}
			for i, p := range tt.parts {
				part := state.Participant{Session: hexOf(fmt.Sprint(p.session+1), 32), Node: fmt.Sprintf("sl-%d", p.session), Weight: p.weight, Seq: 1, ShardFirst: 7}
				if i == 0 {
					part.ShardFirst, part.ShardLeaves = 0, 7
				}
				plan.Participants = append(plan.Participants, part)
			}
			next, _, err := s.Apply(plan)
			if state.ReasonOf(err) != tt.reason || (err == nil) != (next.Contracts[state.DefaultContract].Plan != nil) {
				t.Errorf("got %v, want %q", err, tt.reason)
			}
		})
	}
}

func TestShardsOfAPlan(t *testing.T) {
	run := func(first, leaves uint64) state.LeafRun { return state.LeafRun{First: first, Leaves: leaves} }
	runs := func(r ...state.LeafRun) []state.LeafRun { return r }
	tests := map[string]struct {
		a, b []state.LeafRun
		ok   bool
	}{
		"one for each":         {runs(run(0, 3)), runs(run(3, 4)), true},
		"out of order":         {runs(run(3, 4)), runs(run(0, 3)), true},
		"interleaved":          {runs(run(0, 2), run(4, 1), run(6, 1)), runs(run(2, 2), run(5, 1)), true},
		"side by side":         {runs(run(0, 2), run(2, 1)), runs(run(3, 4)), true},
		"nothing":              {runs(run(0, 7)), runs(run(9, 0)), true},
		"more than nothing":    {runs(run(0, 0), run(0, 3)), runs(run(3, 4)), false},
		"an empty further one": {runs(run(0, 3), run(3, 0)), runs(run(3, 4)), false},
		"descending":           {runs(run(4, 3), run(0, 2)), runs(run(2, 2)), false},
		"a gap":                {runs(run(0, 2)), runs(run(3, 4)), false},
		"two owners":           {runs(run(0, 4)), runs(run(3, 4)), false},
		"twice its own":        {runs(run(0, 2), run(1, 2)), runs(run(3, 4)), false},
		"too few":              {runs(run(0, 3)), runs(run(3, 3)), false},
		"too many":             {runs(run(0, 3)), runs(run(3, 5)), false},
		"as many as it takes":  {runs(run(0, 3)), runs(run(3, 1<<63), run(1<<63+3, 1<<63+4)), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := ruled(t, state.Rules{}, 0, 1, 1)
			plan := state.PlanRound{Contract: state.DefaultContract, Run: 1, Round: 1, Attempt: 1, Epoch: 3}
			for i, r := range [][]state.LeafRun{tt.a, tt.b} {
				plan.Participants = append(plan.Participants, state.Participant{
					Session: hexOf(fmt.Sprint(i+1), 32), Node: fmt.Sprintf("sl-%d", i), Weight: 1, Seq: 1,
					ShardFirst: r[0].First, ShardLeaves: r[0].Leaves, MoreShards: r[1:],
				})
			}
			next, _, err := s.Apply(plan)
			if !tt.ok {
				if state.ReasonOf(err) != state.ReasonBadShards || next.Contracts[state.DefaultContract].Plan != nil {
					t.Errorf("got %v, want %s", err, state.ReasonBadShards)
				}
				return
			}
			if err != nil || state.Check(next) != nil || next.Contracts[state.DefaultContract].Plan.Epoch != 3 {
				t.Fatalf("%v, %v, %+v", err, state.Check(next), next.Contracts[state.DefaultContract].Plan)
			}
			if _, result, err := next.Apply(plan); err != nil || result.Changed {
				t.Errorf("the same again: changed %v, %v", result.Changed, err)
			}
			plan.Participants[1].MoreShards = runs(run(6, 1))
			if _, _, err := next.Apply(plan); state.ReasonOf(err) != state.ReasonStalePlan {
				t.Errorf("another shard: %v", err)
			}
		})
	}
}

func TestFactorsOfAPlan(t *testing.T) {
	for bits, ok := range map[uint64]bool{0: true, 1: true, 0x3ff0000000000000: true, 0x3ff0000000000001: false, 1 << 63: false, 0x7ff0000000000000: false} {
		s := ruled(t, state.Rules{}, 0, 1)
		_, _, err := s.Apply(state.PlanRound{Contract: state.DefaultContract, Run: 1, Round: 1, Attempt: 1, Participants: []state.Participant{
			{Session: hexOf("1", 32), Node: "sl-0", Weight: 1, ShardLeaves: 7, FactorBits: bits},
		}})
		if (err == nil) != ok {
			t.Errorf("factor %x: %v", bits, err)
		}
	}
}

// TestWaits: a rule wins, else the longest that is asked for by somebody who is there.
func TestWaits(t *testing.T) {
	c := &state.Contract{Run: 2, Sessions: map[string]*state.Session{
		"a": {Run: 2, State: state.SessionOpen, QuorumWaitMS: 10, StallGraceMS: 5},
		"b": {Run: 2, State: state.SessionClosed, QuorumWaitMS: 7, StallGraceMS: 6},
		"c": {Run: 2, State: state.SessionEnded, QuorumWaitMS: 99, StallGraceMS: 99},
		"d": {Run: 1, State: state.SessionOpen, QuorumWaitMS: 99, StallGraceMS: 99},
	}}
	if q, s := c.Waits(); q != 10 || s != 6 {
		t.Errorf("asked: %d %d", q, s)
	}
	c.Rules = &state.Rules{QuorumWaitMS: 3}
	if q, s := c.Waits(); q != 3 || s != 6 {
		t.Errorf("ruled: %d %d", q, s)
	}
	if c.ExpectedPeers = 4; c.Expected() != 4 {
		t.Errorf("expected %d", c.Expected())
	}
	if c.Rules.ExpectedPeers = 2; c.Expected() != 2 {
		t.Errorf("expected by rule %d", c.Expected())
	}
}

// TestExportIsNotAllowedLater: who trained under rules that let no models out is not overruled when all sessions have ended,
// while nodes still hold what they made.
func TestExportIsNotAllowedLater(t *testing.T) {
	s := ruled(t, state.Rules{}, 0, 1)
	do := func(c state.Command) error {
		t.Helper()
		next, _, err := s.Apply(c)
		s = next
		return err
	}
	name, session := state.DefaultContract, hexOf("1", 32)
	for _, c := range []state.Command{
		state.PlanRound{Contract: name, Run: 1, Round: 1, Attempt: 1, Participants: []state.Participant{
			{Session: session, Node: "sl-0", Weight: 1, Seq: 1, ShardLeaves: 7},
		}},
		state.CommitRound{Contract: name, Run: 1, Round: 1, Attempt: 1, Digest: hexOf("d", 64), NextInterval: 1},
		state.EndSession{Session: session, Contract: name, Run: 1, Reason: "finished"},
	} {
		if err := do(c); err != nil {
			t.Fatal(err)
		}
	}
	export := state.CreateContract{Contract: name, Rules: state.Rules{Export: true}}
	if err := do(export); state.ReasonOf(err) != state.ReasonTermsMismatch {
		t.Errorf("models made without export are let out: %v", err)
	}
	if err := do(state.CreateContract{Contract: name, Rules: state.Rules{ExpectedPeers: 2}}); err != nil {
		t.Errorf("another rule: %v", err)
	}
	if err := do(state.ResetContract{Contract: name}); err != nil {
		t.Fatal(err)
	}
	if err := do(export); err != nil {
		t.Errorf("before anybody takes part: %v", err)
	}
	if err := do(state.CreateContract{Contract: name}); err != nil {
		t.Errorf("taken back: %v", err)
	}
}

// TestOnlyWhomTheRulesAllow holds that a rule names by SPIFFE ID who may open sessions, whatever name or key it comes with.
func TestOnlyWhomTheRulesAllow(t *testing.T) {
	s := state.New()
	apply := func(c state.Command) error {
		next, _, err := s.Apply(c)
		if err != nil && next != s {
			t.Error("a rejected command changed the state")
		}
		s = next
		return err
	}
	rules := state.Rules{Allow: []string{"spiffe://a.example/swarm/sl/**", "spiffe://b.example/swarm/sl/*"}}
	if err := apply(state.CreateContract{Contract: "study", Rules: rules}); err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		id string
		ok bool
	}{
		{"spiffe://a.example/swarm/sl", true},
		{"spiffe://a.example/swarm/sl/one", true},
		{"spiffe://b.example/swarm/sl", false},
		{"spiffe://b.example/swarm/sl/two", true},
		{"spiffe://c.example/swarm/sl/two", false},
		{"", false},
	} {
		node := state.Node{Name: fmt.Sprintf("sl-%d", i), Role: naming.RoleSL, SPIFFEID: tt.id, PeerID: fmt.Sprintf("peer%d", i)}
		if err := apply(state.RegisterNode{Node: node, TokenHash: strings.Repeat("0", 64)}); err != nil {
			t.Fatal(err)
		}
		err := apply(state.OpenSession{
			Session: fmt.Sprintf("%032x", i), Contract: "study", Node: node.Name, SyncFrequency: 1, Weight: 1,
			Terms: state.Terms{LayoutDigest: strings.Repeat("0", 64), Layout: []byte("{}"), Leaves: 1, Method: "mean", MinPeers: 9},
		})
		if want := map[bool]string{false: state.ReasonNotAllowed}[tt.ok]; state.ReasonOf(err) != want || tt.ok && err != nil {
			t.Errorf("%q opens a session: %v", tt.id, err)
		}
	}
	for name, allow := range map[string][]string{
		"no pattern": {"sl-1"}, "an SN's": {"spiffe://a.example/swarm/sn/*"}, "twice": {rules.Allow[0], rules.Allow[0]},
		"too many": make([]string, 65),
	} {
		if err := apply(state.CreateContract{Contract: "other", Rules: state.Rules{Allow: allow}}); state.ReasonOf(err) != state.ReasonBadCommand {
			t.Errorf("%s: %v", name, err)
		}
	}
}
