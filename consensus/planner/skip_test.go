package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/explain"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/round"
)

// dies has the SNs find a node dead for long, and the leader decide.
func (b *table) dies(nodes ...int) planner.Decision {
	b.t.Helper()
	for _, i := range nodes {
		b.apply(state.SetLive{Node: name(i), AtMS: b.now.Add(-15 * time.Second).UnixMilli()})
	}
	return b.decide()
}

// shards are the leaves of a plan, by node: "first+leaves" of each run.
func shards(parts []state.Participant) string {
	var all []string
	for _, p := range parts {
		text := p.Node
		for _, r := range p.Runs() {
			if r.Leaves > 0 {
				text += fmt.Sprintf(" %d+%d", r.First, r.Leaves)
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// TestAThirdOwnerIsASkip: owners that are gone have deputies, and if these are gone too the round is skipped, for all who are ready.
func TestAThirdOwnerIsASkip(t *testing.T) {
	b := newTable(t, 2, 4)
	b.ready(1, 0, 1, 2, 3)
	b.follow()
	plan, ok := b.dies(0).Command.(state.PlanRound)
	if want := "sl-1 0+1 3+3, sl-2 1+1 6+2, sl-3 2+1 8+2"; !ok || shards(plan.Participants) != want {
		t.Fatalf("%+v: %s, want %s", plan, shards(plan.Participants), want)
	}
	b.apply(plan)
	skip, ok := b.dies(1).Command.(state.SkipRound)
	if !ok || len(skip.Sessions) != 4 || skip.Attempt != 2 || !strings.Contains(skip.Reason, "sl-0, sl-1 had leaves") {
		t.Fatalf("%+v, want a skip", skip)
	}
	b.apply(skip)
	if w := b.decide(); w.Command != nil || w.Waiting.Kind != planner.WaitTraining {
		t.Fatalf("after the skip: %+v", w)
	}
	for i := range 2 { // sl-0 and sl-1 were asked for leaves too, and come back later
		if got := b.contract().Sessions[id(i)].SkippedSeq; got != 1 {
			t.Errorf("Sync %d of sl-%d is skipped", got, i)
		}
	}
	b.train()
	plan, ok = b.decide().Command.(state.PlanRound)
	if want := "sl-2 0+5, sl-3 5+5"; !ok || shards(plan.Participants) != want || plan.Epoch != 1 || plan.Attempt != 3 || plan.Round != 1 {
		t.Fatalf("%+v: %s, want %s", plan, shards(plan.Participants), want)
	}
	b.apply(plan)
	text := strings.Join(explain.Lines(b.decide().Waiting, b.now), "\n")
	if want := "rounds that were skipped in this run: 1, the last time round 1, 0 s ago: sl-0, sl-1 had leaves"; !strings.Contains(text, want) {
		t.Errorf("want %q in\n%s", want, text)
	}
}

// TestWhatIsFrozenCountsNothing: a closed session never offers anew. If nobody else's leaves would go to a third owner its
// contribution counts 0, and no round is skipped.
func TestWhatIsFrozenCountsNothing(t *testing.T) {
	for _, rules := range []state.Rules{{}, {WeightCapPPM: state.PPM}} { // under a cap weights are made anew for each attempt
		for _, mode := range []string{state.CheckinSnapshot, state.CheckinOnce} {
			t.Run(fmt.Sprintf("%s cap %d", mode, rules.WeightCapPPM), func(t *testing.T) { frozenCountsNothing(t, rules, mode) })
		}
	}
}

func frozenCountsNothing(t *testing.T, rules state.Rules, mode string) {
	b := newTableOf(t, rules, 3, func(_ int, o *state.OpenSession) { o.Terms.MinPeers = 1 })
	b.round(0, 1, 2)
	for i := range 3 {
		b.apply(state.CloseSession{Session: id(i), Contract: contractName, Run: 1, CheckinMode: mode, Seq: 1})
		b.reports[id(i)] = reports.Report{At: b.now, Ready: &round.Ready{Seq: 1, BaseRound: 1, BaseDigest: b.contract().Committed.Digest, Weight: 1}}
	}
	b.follow()
	b.dies(0)
	b.follow()
	if w := b.dies(1); w.Command == nil {
		t.Fatalf("%+v", w)
	}
	// sl-2 alone has frozen weights that two owners may have: there is nothing to merge, so the round is given up and the last
	// model is final after the quorum wait.
	b.follow()
	if p := b.contract().Plan; p != nil || b.contract().Over {
		t.Fatalf("plan %+v", p)
	}
	b.now = b.now.Add(time.Minute)
	b.follow()
	if c := b.contract(); !c.Over || c.Round() != 1 || c.Skips != nil {
		t.Errorf("round %d, over %v, skips %v", c.Round(), c.Over, c.Skips)
	}
}

// refuses has a peer report that its record forbids the running attempt.
func (b *table) refuses(i int) {
	p, r := b.contract().Plan, b.reports[id(i)]
	r.Failed, r.FailedAt = &round.Failed{Round: p.Round, Attempt: p.Attempt, Code: state.ReasonThirdOwner, Reason: "a third"}, b.now
	b.reports[id(i)] = r
}

// TestOnlyWhoRefusesIsSkipped: a peer's own record forbids an attempt. That holds nobody else up, so who says so falsely in each
// round has skipped itself, and sits out after three.
func TestOnlyWhoRefusesIsSkipped(t *testing.T) {
	b := newTable(t, 2, 3)
	for n := range uint64(4) {
		b.ready(1, 0, 1, 2)
		b.train()
		b.follow()
		p := b.contract().Plan
		if in := p.Participant(id(2)) != nil; in != (n < 3) {
			t.Fatalf("round %d: sl-2 takes part: %v", n+1, in)
		}
		if n < 3 {
			b.refuses(2)
			skip, ok := b.decide().Command.(state.SkipRound)
			if !ok || len(skip.Sessions) != 1 || skip.Sessions[id(2)] == 0 {
				t.Fatalf("round %d: %+v, want a skip for sl-2", n+1, skip)
			}
			b.apply(skip)
			delete(b.reports, id(2)) // it trains on
			b.now = b.now.Add(time.Minute)
			b.follow()
			p = b.contract().Plan
			if p == nil || nodes(p.Participants) != "sl-0 sl-1" {
				t.Fatalf("round %d goes on with %+v", n+1, p)
			}
		}
		for _, q := range p.Participants {
			r := b.reports[q.Session]
			r.Done = &round.Done{Round: p.Round, Attempt: p.Attempt, ModelDigest: fmt.Sprintf("%064x", p.Round)}
			b.reports[q.Session] = r
		}
		b.follow()
	}
	if b.contract().Round() != 4 {
		t.Errorf("round %d", b.contract().Round())
	}
}

// TestAClosedPeerThatRefusesCountsNothing from then on.
func TestAClosedPeerThatRefusesCountsNothing(t *testing.T) {
	b := newTable(t, 2, 3)
	b.round(0, 1, 2)
	b.apply(state.CloseSession{Session: id(2), Contract: contractName, Run: 1, CheckinMode: state.CheckinSnapshot, Seq: 1})
	for range 2 {
		b.ready(1, 0, 1)
		b.follow()
		p := b.contract().Plan
		if p.Participant(id(2)).Weight > 0 {
			b.refuses(2)
			b.follow()
			p = b.contract().Plan
		}
		if got := p.Participant(id(2)); p.Attempt > 2 || got == nil || got.Weight != 0 {
			t.Fatalf("attempt %d: sl-2 is %+v", p.Attempt, got)
		}
		for _, q := range p.Participants {
			b.reports[q.Session] = reports.Report{Done: &round.Done{Round: p.Round, Attempt: p.Attempt, ModelDigest: fmt.Sprintf("%064x", p.Round)}}
		}
		b.follow()
		b.now = b.now.Add(10 * time.Second)
	}
	if b.contract().Round() != 3 || b.contract().Skips != nil {
		t.Errorf("round %d, skips %v", b.contract().Round(), b.contract().Skips)
	}
}

// TestWhoIsInManyContradictionsSitsOut although it was never convicted twice in a row: sl-0 contradicts an owner in each round, once.
func TestWhoIsInManyContradictionsSitsOut(t *testing.T) {
	b := newTable(t, 2, 5)
	var with [][]int
	for n := range 4 {
		b.ready(1, 0, 1, 2, 3, 4)
		lied := false
		who, _ := b.play(func(planned []int) map[int]word {
			words := all(planned, word{done: true})
			if !lied && slices.Contains(planned, 0) {
				lied = true
				words[0] = word{done: true, unsealed: name(1 + n)}
			}
			return words
		})
		slices.Sort(who)
		b.train()
		with = append(with, who)
		b.now = b.now.Add(time.Minute)
	}
	if !slices.Contains(with[1], 0) || slices.Contains(with[3], 0) || len(with[3]) != 4 {
		t.Errorf("took part: %v", with)
	}
}

// TestOwnersByRule: only whom a rule names own leaves, also those of weight 0, and without any of them a round waits.
func TestOwnersByRule(t *testing.T) {
	owners := []string{"spiffe://td/swarm/sl/own-*"}
	if _, _, err := state.New().Apply(state.CreateContract{Contract: contractName, Rules: state.Rules{Owners: owners}}); state.ReasonOf(err) != state.ReasonBadCommand {
		t.Fatalf("a pattern that is none: %v", err)
	}
	owners = []string{"spiffe://td/swarm/sl/sl-0", "spiffe://td/swarm/sl/sl-1"}
	b := newTableOf(t, state.Rules{Owners: owners}, 4, func(i int, o *state.OpenSession) {
		o.Terms.MinPeers, o.Weight = 2, uint32(i) //nolint:gosec // small
	})
	for i := range 4 {
		b.apply(state.RegisterNode{
			Node:      state.Node{Name: name(i), Role: naming.RoleSL, PeerID: name(i), SPIFFEID: "spiffe://td/swarm/sl/" + name(i)},
			TokenHash: strings.Repeat("1", 64),
		})
	}
	b.ready(0, 0)
	b.ready(1, 1, 2, 3)
	b.follow()
	if got, want := shards(b.contract().Plan.Participants), "sl-0 0+5, sl-1 5+5, sl-2, sl-3"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	b.dies(0)
	b.follow()
	if got, want := shards(b.contract().Plan.Participants), "sl-1 0+10, sl-2, sl-3"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	b.dies(1)
	w := b.follow()
	if b.contract().Plan != nil || w.Kind != planner.WaitOwners || !strings.Contains(w.String(), "only "+owners[0]+", "+owners[1]+" may own parts of the model") {
		t.Fatalf("%s: %s", w.Kind, w)
	}
	if b.contract().Skips != nil {
		t.Error("a round was skipped, though no skip helps")
	}
}

// TestManyOfWeight0OwnNothing: seven nodes that contribute nothing got seven tenths of what three hospitals sent.
func TestManyOfWeight0OwnNothing(t *testing.T) {
	b := newTable(t, 3, 10)
	b.ready(1, 0, 1, 2)
	b.ready(0, 3, 4, 5, 6, 7, 8, 9)
	b.follow()
	if got := shards(b.contract().Plan.Participants); !strings.HasPrefix(got, "sl-0 0+4, sl-1 4+3, sl-2 7+3, sl-3, sl-4") {
		t.Error(got)
	}
}

// TestSharedIDsAreExplained: under a shared ID each node owns a part of its own, which a user should know.
func TestSharedIDsAreExplained(t *testing.T) {
	b := newTable(t, 2, 3)
	for i := range 2 {
		b.apply(state.RegisterNode{
			Node: state.Node{Name: name(i), Role: naming.RoleSL, PeerID: name(i), SPIFFEID: "spiffe://td/swarm/sl"}, TokenHash: strings.Repeat("1", 64),
		})
	}
	b.ready(1, 0)
	text := strings.Join(explain.Lines(b.follow(), b.now), "\n")
	if want := "peers share the SPIFFE ID spiffe://td/swarm/sl: each of them owns a part of the model, whoever runs them; give each node an entry of its own, on the SPIRE server's machine: swarmctl invite sl/NAME"; !strings.Contains(text, want) {
		t.Errorf("want %q in\n%s", want, text)
	}
}
