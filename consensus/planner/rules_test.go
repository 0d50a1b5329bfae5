package planner_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// ruled are cases in which a rule of the contract stands in the way.
func ruled() []waitingCase {
	weighted := func(weights ...uint32) func(int, *state.OpenSession) {
		return func(i int, o *state.OpenSession) { o.Weight = weights[i] }
	}
	return []waitingCase{
		{"required node is late", func(t *testing.T) *table {
			b := newTableOf(t, state.Rules{Required: []string{"sl-2"}}, 3, weighted(1, 1, 1))
			b.ready(1, 0, 1)
			b.reports[id(2)] = reports.Report{At: b.now}
			return b
		}},
		{"required node never came", func(t *testing.T) *table {
			b := newTableOf(t, state.Rules{Required: []string{"hospital-a", "sl-0"}}, 2, weighted(1, 1))
			b.ready(1, 0, 1)
			return b
		}},
		{"required node is missing in the final round", func(t *testing.T) *table {
			b := newTableOf(t, state.Rules{Required: []string{"sl-2"}}, 3, weighted(1, 1, 1))
			b.round(0, 1, 2)
			for i := range 2 {
				b.apply(state.CloseSession{Session: id(i), Contract: contractName, Run: 1, Seq: 1})
			}
			b.apply(state.SetLive{Node: "sl-2", AtMS: b.now.UnixMilli()})
			return b
		}},
		{"share of the weight", func(t *testing.T) *table {
			b := newTableOf(t, state.Rules{MinWeightSharePPM: 600_000}, 3, weighted(10, 20, 70))
			b.ready(10, 0, 1)
			b.reports[id(2)] = reports.Report{At: b.now}
			return b
		}},
		{"cap with too few", func(t *testing.T) *table {
			b := newTableOf(t, state.Rules{WeightCapPPM: 400_000}, 3, weighted(1, 1, 1))
			b.ready(1, 0, 1)
			return b
		}},
		{"method with too few of weight", func(t *testing.T) *table {
			b := newTableOf(t, state.Rules{Method: "krum(f=0)", Least: 3}, 4, func(_ int, o *state.OpenSession) {
				o.Terms.Method, o.Terms.MinPeers = "", 3
			})
			b.ready(1, 0, 1)
			b.ready(0, 2, 3)
			return b
		}},
		{"weights are numbers of samples", func(t *testing.T) *table {
			b := newTableOf(t, state.Rules{}, 3, func(i int, o *state.OpenSession) {
				o.Terms.Weights, o.Weight = state.WeightsSamples, []uint32{30, 300, 60_000}[i]
			})
			b.ready(30, 0)
			return b
		}},
		{"fails below minPeers", func(t *testing.T) *table {
			b := newTableOf(t, state.Rules{MinPeersTimeoutMS: 60_000}, 2, weighted(1, 1))
			b.apply(state.SetLive{Node: "sl-1", AtMS: b.now.UnixMilli()})
			return b
		}},
		{"all want no shard", func(t *testing.T) *table {
			b := newTableOf(t, state.Rules{}, 2, func(_ int, o *state.OpenSession) { o.NoShard = true })
			b.ready(1, 0, 1)
			return b
		}},
	}
}

// TestRulesGoOn: each rule lets the round go when it is fulfilled.
func TestRulesGoOn(t *testing.T) {
	b := newTableOf(t, state.Rules{Required: []string{"sl-2"}}, 3, func(int, *state.OpenSession) {})
	b.ready(1, 0, 1)
	b.follow()
	b.now = b.now.Add(time.Hour)
	if w := b.follow(); w.Kind != planner.WaitRequired || b.contract().Plan != nil {
		t.Fatalf("after an hour without the required node: %s", w)
	}
	b.ready(1, 2)
	if w := b.follow(); w.Kind != planner.WaitMerging || len(b.contract().Plan.Participants) != 3 {
		t.Fatalf("with the required node: %s", w)
	}
	b.apply(state.SetLive{Node: "sl-2"})
	if w := b.follow(); w.Kind != planner.WaitRequired || b.contract().Plan != nil {
		t.Fatalf("the required node died in the attempt: %s", w)
	}
}

// TestRequiredNodeSitsNowhere: a required node that was blamed takes part all the same.
func TestRequiredNodeSitsNowhere(t *testing.T) {
	b := newTableOf(t, state.Rules{Required: []string{"sl-2"}}, 3, func(int, *state.OpenSession) {})
	b.ready(1, 0, 1, 2)
	b.follow()
	for range 6 {
		plan := b.contract().Plan
		if plan == nil || plan.Participant(id(2)) == nil {
			t.Fatalf("plan %+v, want one with sl-2", plan)
		}
		for i := range 2 {
			b.reports[id(i)] = reports.Report{
				Failed: &round.Failed{Round: 1, Attempt: plan.Attempt, Blamed: "sl-2", Reason: "no byte for 10 s"}, At: b.now, FailedAt: b.now,
				Ready: b.reports[id(i)].Ready,
			}
		}
		b.now = b.now.Add(time.Second)
		b.follow()
		b.now = b.now.Add(10 * time.Second)
		b.follow()
	}
}

func TestFinalRoundThatARuleForbidsEndsWithTheLastModel(t *testing.T) {
	for _, tt := range ruled() {
		if tt.name != "required node is missing in the final round" {
			continue
		}
		b := tt.run(t)
		b.follow()
		b.now = b.now.Add(time.Minute)
		b.follow()
		if c := b.contract(); !c.Over || !strings.Contains(c.PendingReason, "sl-2") {
			t.Errorf("over %t: %s", c.Over, c.PendingReason)
		}
	}
}

// TestMinPeersTimeout: all sessions end when the rule says so, with the reason; peers that return in time save them.
func TestMinPeersTimeout(t *testing.T) {
	rules := state.Rules{MinPeersTimeoutMS: 60_000}
	b := newTableOf(t, rules, 2, func(int, *state.OpenSession) {})
	b.apply(state.SetLive{Node: "sl-1"})
	b.follow()
	b.now = b.now.Add(59 * time.Second)
	b.follow()
	b.apply(state.SetLive{Node: "sl-1", Live: true})
	b.follow()
	b.apply(state.SetLive{Node: "sl-1"})
	b.follow()
	b.now = b.now.Add(59 * time.Second)
	if w := b.follow(); w.Kind != planner.WaitPeers || !w.Fails {
		t.Fatalf("a second before: %s", w)
	}
	b.now = b.now.Add(time.Second)
	if w := b.follow(); w.Kind != planner.WaitSessions {
		t.Fatalf("then: %s", w)
	}
	for _, s := range b.contract().Sessions {
		if s.State != state.SessionEnded || !strings.Contains(s.EndReason, "minPeers for 1m0s") {
			t.Errorf("session of %s is %s: %s", s.Node, s.State, s.EndReason)
		}
	}
}

// TestWaitsOfAContract: a rule wins over the nodes, the longest of theirs over the SN.
func TestWaitsOfAContract(t *testing.T) {
	for _, tt := range []struct {
		rule, asked uint32
		want        time.Duration
	}{{0, 0, 30 * time.Second}, {0, 90_000, 90 * time.Second}, {5_000, 90_000, 5 * time.Second}} {
		b := newTableOf(t, state.Rules{QuorumWaitMS: tt.rule}, 3, func(i int, o *state.OpenSession) {
			if i == 1 {
				o.QuorumWaitMS = tt.asked
			}
		})
		b.ready(1, 0, 1)
		if w := b.follow(); w.Until.Sub(b.now) != tt.want {
			t.Errorf("rule %d asked %d: waits %s, want %s", tt.rule, tt.asked, w.Until.Sub(b.now), tt.want)
		}
	}
}

// TestShards: who opts out owns nothing, unless all do; more owners than leaves leave the last ones without.
func TestShards(t *testing.T) {
	tests := []struct {
		name string
		out  []int // that want none
		n    int
		want string
	}{
		{"equal", nil, 3, "4 3 3"},
		{"one wants none", []int{1}, 3, "5 0 5"},
		{"the first wants none", []int{0}, 3, "0 5 5"},
		{"all want none", []int{0, 1, 2}, 3, "4 3 3"},
		{"more than leaves", nil, 12, "1 1 1 1 1 1 1 1 1 1 0 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newTableOf(t, state.Rules{}, tt.n, func(i int, o *state.OpenSession) { o.NoShard = slices.Contains(tt.out, i) })
			for i := range tt.n {
				b.ready(1, i)
			}
			b.follow() // Apply refuses shards that do not tile.
			var got []string
			for _, p := range b.contract().Plan.Participants {
				got = append(got, fmt.Sprint(p.ShardLeaves))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %v, want %s", got, tt.want)
			}
		})
	}
}

// TestCapIsPlanned: the capped weights are in the plan, also in that of an attempt with fewer peers.
func TestCapIsPlanned(t *testing.T) {
	b := newTableOf(t, state.Rules{WeightCapPPM: 400_000}, 4, func(_ int, o *state.OpenSession) {})
	b.ready(100, 0)
	b.ready(1, 1, 2, 3)
	b.follow()
	if got := weightsOf(b.contract().Plan); !slices.Equal(got, []uint32{9000, 4500, 4500, 4500}) {
		t.Errorf("weights %v", got)
	}
	b.apply(state.SetLive{Node: "sl-3"})
	b.follow()
	if got := weightsOf(b.contract().Plan); !slices.Equal(got, []uint32{9000, 6750, 6750}) {
		t.Errorf("weights without sl-3: %v", got)
	}
}

// TestSamplesArePlanned: weights that are numbers of samples are planned as they were told, and bounded only as such.
func TestSamplesArePlanned(t *testing.T) {
	b := newTableOf(t, state.Rules{}, 3, func(_ int, o *state.OpenSession) { o.Terms.Weights, o.Weight = state.WeightsSamples, 1 })
	b.ready(30, 0)
	b.ready(60_000, 1)
	b.ready(1<<31, 2)
	b.follow()
	if got := weightsOf(b.contract().Plan); !slices.Equal(got, []uint32{30, 60_000, state.MaxSamples}) {
		t.Errorf("weights %v", got)
	}
}

func weightsOf(p *state.Plan) []uint32 {
	var out []uint32
	for _, x := range p.Participants {
		out = append(out, x.Weight)
	}
	return out
}

// clipping is a table of three under normclip whose updates have these norms.
func clipping(t *testing.T, norms ...float64) *table {
	t.Helper()
	b := newTableOf(t, state.Rules{Method: "normclip(factor=1.5,cap=0)"}, len(norms), func(_ int, o *state.OpenSession) { o.Terms.Method = "" })
	for i, n := range norms {
		b.ready(1, i)
		b.reports[id(i)].Ready.UpdateNorm = n
	}
	b.follow()
	return b
}

// TestFactors: 1.5 times the median norm is the bound, and the declared norms stand in the plan.
func TestFactors(t *testing.T) {
	b := clipping(t, 2, 12, 4)
	var factors, norms []float64
	for _, p := range b.contract().Plan.Participants {
		factors = append(factors, math.Float64frombits(p.FactorBits))
		norms = append(norms, math.Float64frombits(p.NormBits))
	}
	if d := cmp.Diff([]float64{1, 0.5, 1}, factors); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]float64{2, 12, 4}, norms); d != "" {
		t.Error(d)
	}
	wild := clipping(t, math.Inf(1), math.NaN(), 4, 4, 4)
	for _, p := range wild.contract().Plan.Participants { // Apply takes only factors over 0 to 1.
		if p.FactorBits == 0 {
			t.Errorf("%s has no factor", p.Node)
		}
	}
}

// report has all be done with these sums of squares at each owner.
func (b *table) report(squares ...[]float64) {
	plan := b.contract().Plan
	for i, p := range plan.Participants {
		b.reports[p.Session] = reports.Report{Ready: b.reports[p.Session].Ready, At: b.now, Done: &round.Done{
			Round: plan.Round, Attempt: plan.Attempt, ModelDigest: strings.Repeat("1", 64), UpdateSquares: squares[i],
		}}
	}
}

// TestDeclaredNorms: who declares less than it sends is named, the attempt refused; honest sums may round.
func TestDeclaredNorms(t *testing.T) {
	tests := []struct {
		name    string
		squares [][]float64 // by owner, of each participant: norms are 3, 4, 5
		liar    string      // empty: committed
	}{
		{"honest", [][]float64{{9, 0, 5}, {0, 16, 5}, {0, 0, 15}}, ""},
		{"rounded", [][]float64{{9.0001, 0, 5}, {0, 15.999, 5}, {0, 0, 15}}, ""},
		{"more than declared", [][]float64{{9, 0, 5}, {0, 16, 5}, {0, 84, 15}}, "sl-1"},
		{"less than declared", [][]float64{{9, 0, 0}, {0, 16, 0}, {0, 0, 0}}, "sl-2"},
		{"no sums", [][]float64{{9, 0, 25}, nil, {0, 16, 0}}, "sl-1"},
		{"sums that are none", [][]float64{{9, 0, 25}, {0, 16, 0}, {0, math.NaN(), 0}}, "sl-2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := clipping(t, 3, 4, 5)
			b.report(tt.squares...)
			w := b.follow()
			if tt.liar == "" {
				if b.contract().Round() != 1 {
					t.Fatalf("not committed: %s", w)
				}
				return
			}
			if b.contract().Round() != 0 || !strings.Contains(w.String(), tt.liar+":") {
				t.Fatalf("round %d, %s", b.contract().Round(), w)
			}
		})
	}
}

// TestLiarAboutItsNormSitsOut: named in two attempts in a row.
func TestLiarAboutItsNormSitsOut(t *testing.T) {
	b := clipping(t, 3, 3, 3)
	for range 2 {
		plan := b.contract().Plan
		if len(plan.Participants) != 3 {
			t.Fatalf("attempt %d has %d participants", plan.Attempt, len(plan.Participants))
		}
		own := map[string][]float64{}
		for _, p := range plan.Participants {
			for _, x := range plan.Participants {
				square := 3.0
				if x.Node == "sl-2" {
					square = 300
				}
				own[p.Session] = append(own[p.Session], square)
			}
		}
		for _, p := range plan.Participants {
			b.reports[p.Session] = reports.Report{Ready: b.reports[p.Session].Ready, At: b.now, Done: &round.Done{
				Round: 1, Attempt: plan.Attempt, ModelDigest: strings.Repeat("1", 64), UpdateSquares: own[p.Session],
			}}
		}
		b.follow()
		b.now = b.now.Add(10 * time.Second)
		b.follow()
	}
	if plan := b.contract().Plan; plan == nil || len(plan.Participants) != 2 || plan.Participant(id(2)) != nil {
		t.Fatalf("plan %+v, want one without the liar", plan)
	}
}

// TestNormFromBeforeTheLastCommit: a closed session's norm counts from the last model, so one that was declared before it is not
// taken for the final round's.
func TestNormFromBeforeTheLastCommit(t *testing.T) {
	b := clipping(t, 2, 4, 4)
	b.report([]float64{4, 16, 16}, []float64{0, 0, 0}, []float64{0, 0, 0})
	b.follow()
	if b.contract().Round() != 1 {
		t.Fatal("round 1 was not committed")
	}
	for i := range 3 {
		b.apply(state.CloseSession{Session: id(i), Contract: contractName, Run: 1, Seq: 1})
	}
	if b.follow(); b.contract().Plan != nil {
		t.Fatalf("planned by what was said before the last commit: %+v", b.contract().Plan)
	}
	b.ready(1, 0, 1, 2)
	b.follow()
	if p := b.contract().Plan; p == nil || !p.Final || p.Participants[0].NormBits != 0 {
		t.Errorf("planned: %+v", p)
	}
}
