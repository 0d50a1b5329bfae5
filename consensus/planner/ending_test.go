package planner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/explain"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// comes has the clock run until something is proposed, and returns after how long, and what. Without steps, which are seconds, it moves on to
// what is said to end the wait.
func (b *table) comes(step func(passed time.Duration)) (time.Duration, state.Command) {
	b.t.Helper()
	for passed := time.Duration(0); passed < 24*time.Hour; {
		if step != nil {
			step(passed)
		}
		for id, r := range b.reports { // heartbeats
			if !r.At.IsZero() {
				r.At = b.now
				b.reports[id] = r
			}
		}
		d, next := b.decide(), time.Second
		switch until := d.Waiting.Until; {
		case d.Command != nil:
			return passed, d.Command
		case step == nil && until.Sub(b.now) > time.Second:
			next = until.Sub(b.now) - time.Second
		}
		passed, b.now = passed+next, b.now.Add(next)
	}
	b.t.Fatalf("nothing in a day: %s", b.decide().Waiting)
	return 0, nil
}

// elected is a leader that has heard of nobody yet; those who were ready tell it a second later.
func (b *table) elected() (heard func()) {
	had := b.reports
	b.memory, b.reports = planner.Memory{}, map[string]reports.Report{}
	return func() { b.reports = had }
}

// TestAnEndWaitsForWeight: where all who are ready have weight 0, as clients that only take models have, those who train may still bring one,
// for the usual time. Then training is over with the last model, and fails if there is none, whatever hangs.
func TestAnEndWaitsForWeight(t *testing.T) {
	type test struct {
		name   string
		before func(b *table)
		step   func(b *table, passed time.Duration)
		waits  time.Duration
		final  bool   // a final round is planned
		why    string // else: how it ends
	}
	tests := []test{
		{"who has weight hangs", nil, nil, time.Minute, false, "all peers that are ready have weight 0: sl-0, sl-1"},
		{"who has weight comes late", nil, func(b *table, passed time.Duration) {
			if passed == 59*time.Second {
				b.ready(1, 2)
			}
		}, 59 * time.Second, true, ""},
		{"another leader in the middle", nil, func(b *table, passed time.Duration) {
			if passed == 20*time.Second {
				b.elected()()
			}
		}, time.Minute, false, "all peers that are ready have weight 0: sl-0, sl-1"},
		{"another leader near the end", nil, func(b *table, passed time.Duration) {
			if passed == 50*time.Second {
				b.elected()()
			}
		}, 80 * time.Second, false, "all peers that are ready have weight 0: sl-0, sl-1"},
		{"another leader, and who has weight is ready", func(b *table) { b.ready(1, 2) }, func(b *table, passed time.Duration) {
			if passed == 0 {
				b.now = b.now.Add(time.Hour)
				heard := b.elected()
				b.decide()
				heard()
			}
		}, 0, true, ""},
		{"who has weight is dead", func(b *table) { b.apply(state.SetLive{Node: "sl-2"}) }, nil, 30 * time.Second, false, "all peers that are ready have weight 0: sl-0, sl-1"},
		{"one of them is ready now and then", nil, func(b *table, passed time.Duration) {
			if delete(b.reports, id(1)); passed/(20*time.Second)%2 == 0 {
				b.ready(0, 1)
			}
		}, time.Minute, false, ""},
		{"all have weight 0", func(b *table) { b.ready(0, 2) }, nil, 0, false, "all peers have weight 0"},
	}
	for _, model := range []bool{true, false} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s, model=%t", tt.name, model), func(t *testing.T) {
				b := newTable(t, 2, 3)
				if model {
					b.round(0, 1, 2)
				}
				b.ready(0, 0, 1)
				if tt.before != nil {
					tt.before(b)
				}
				b.end()
				after, c := b.comes(func(passed time.Duration) {
					if tt.step != nil {
						tt.step(b, passed)
					}
				})
				if after != tt.waits {
					t.Errorf("%s after %s, want %s", c.Type(), after, tt.waits)
				}
				switch c := c.(type) {
				case state.PlanRound:
					if !tt.final || !c.Final {
						t.Errorf("planned %+v", c)
					}
				case state.FinishContract:
					if tt.final || !model || !strings.Contains(c.Reason, tt.why) {
						t.Errorf("ends: %s", c.Reason)
					}
				case state.FailContract:
					if tt.final || model || !strings.HasPrefix(c.Reason, "failed: ") || !strings.Contains(c.Reason, tt.why) {
						t.Errorf("fails: %s", c.Reason)
					}
				default:
					t.Errorf("proposes %s", c.Type())
				}
				b.apply(c)
				b.follow()
				if k := b.contract(); !tt.final && k.Over != model || !tt.final && !model && len(k.Active()) > 0 {
					t.Errorf("over: %t, %d sessions", k.Over, len(k.Active()))
				}
			})
		}
	}
}

// TestAnEndWaitsForAllWhoTrain, also when minPeers are ready and one of them has a weight: nobody gets into a later round. The round is held
// without who does not come in time.
func TestAnEndWaitsForAllWhoTrain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		step  func(b *table, passed time.Duration)
		waits time.Duration
		with  int
	}{
		{"one hangs", nil, time.Minute, 2},
		{"it comes", func(b *table, passed time.Duration) {
			if passed == 59*time.Second {
				b.ready(1, 2)
			}
		}, 59 * time.Second, 3},
		{"it dies", func(b *table, passed time.Duration) {
			if passed == 5*time.Second {
				b.apply(state.SetLive{Node: "sl-2"})
			}
		}, 5 * time.Second, 2},
		{"another leader near the end", func(b *table, passed time.Duration) {
			if passed == 55*time.Second {
				heard := b.elected()
				b.decide()
				heard()
			}
		}, 85 * time.Second, 2},
		{"another leader whose clock is ahead", func(b *table, passed time.Duration) {
			if passed == 5*time.Second {
				b.elected()()
				b.now = b.now.Add(time.Hour)
			}
		}, 35 * time.Second, 2},
		{"another leader whose clock is behind", func(b *table, passed time.Duration) {
			if passed == 5*time.Second {
				b.elected()()
				b.now = b.now.Add(-time.Hour)
			}
		}, 65 * time.Second, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTable(t, 2, 3)
			b.round(0, 1, 2)
			b.ready(1, 0)
			b.ready(0, 1)
			b.end()
			after, c := b.comes(func(passed time.Duration) {
				if tt.step != nil {
					tt.step(b, passed)
				}
			})
			plan, ok := c.(state.PlanRound)
			if !ok || !plan.Final || len(plan.Participants) != tt.with || after != tt.waits {
				t.Errorf("%+v after %s, want a final round of %d after %s", c, after, tt.with, tt.waits)
			}
		})
	}
}

// TestAnEndIsNotWaitedForLonger than the usual time, or an hour, or what somebody has asked for that is longer.
func TestAnEndIsNotWaitedForLonger(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules state.Rules
		gap   time.Duration // between rounds
		lead  func(b *table)
		waits time.Duration
	}{
		{"rounds are quick", state.Rules{}, 0, nil, 30 * time.Second},
		{"rounds take ten minutes", state.Rules{}, 10 * time.Minute, nil, 20*time.Minute + 22*time.Second},
		{"rounds take days", state.Rules{}, 48 * time.Hour, nil, time.Hour},
		{"with a min-peers-timeout of two hours", state.Rules{MinPeersTimeoutMS: 7_200_000}, 48 * time.Hour, nil, 2 * time.Hour},
		{"with a stall grace of two hours", state.Rules{StallGraceMS: 7_200_000}, 48 * time.Hour, nil, 2 * time.Hour},
		{"with a quorum wait of two hours", state.Rules{QuorumWaitMS: 7_200_000}, 0, nil, 2 * time.Hour},
		{"a min-peers-timeout that is shorter", state.Rules{MinPeersTimeoutMS: 1000}, 0, nil, 30 * time.Second},
		{"a rule asks for one who trains", state.Rules{Required: []string{"sl-2"}}, 10 * time.Minute, func(b *table) { b.ready(1, 0, 1) }, 20*time.Minute + 22*time.Second},
		{"a rule asks for one who is dead", state.Rules{Required: []string{"sl-2"}}, 10 * time.Minute, func(b *table) {
			b.ready(1, 0, 1)
			b.apply(state.SetLive{Node: "sl-2"})
		}, 30 * time.Second},
		{"too few are there, and a min-peers-timeout is shorter", state.Rules{MinPeersTimeoutMS: 1000}, 0, func(b *table) {
			b.apply(state.SetLive{Node: "sl-1"})
			b.apply(state.SetLive{Node: "sl-2"})
		}, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTableOf(t, tt.rules, 3, func(int, *state.OpenSession) {})
			for i := range 3 {
				if i > 0 {
					b.now = b.now.Add(tt.gap)
				}
				b.round(0, 1, 2)
			}
			if tt.lead != nil {
				tt.lead(b)
			}
			b.end()
			if after, c := b.comes(nil); after != tt.waits || c.Type() != "finish_contract" {
				t.Errorf("%s after %s, want the end after %s", c.Type(), after, tt.waits)
			}
		})
	}
	t.Run("a pause of days before", func(t *testing.T) {
		b := newTable(t, 2, 3)
		b.round(0, 1, 2)
		b.pause()
		b.follow()
		b.now = b.now.Add(72 * time.Hour)
		b.resume()
		b.round(0, 1, 2)
		b.end()
		if after, c := b.comes(nil); after != time.Minute { // the stall grace: nothing tells of a usual time
			t.Errorf("%s after %s, want the end after a minute", c.Type(), after)
		}
	})
}

// TestAFinalRoundThatFailsAlwaysIsGivenUp: two that live and can't merge do not keep a training from its end.
func TestAFinalRoundThatFailsAlwaysIsGivenUp(t *testing.T) {
	for _, model := range []bool{true, false} {
		t.Run(fmt.Sprintf("model=%t", model), func(t *testing.T) {
			b := newTable(t, 2, 2)
			if model {
				b.round(0, 1)
			}
			b.end()
			b.ready(1, 0, 1)
			b.follow()
			begun := b.now
			for len(b.contract().Active()) > 0 && !b.contract().Over && b.now.Sub(begun) < time.Hour {
				b.now = b.now.Add(200 * time.Millisecond)
				if p := b.contract().Plan; p != nil {
					for i := range 2 {
						r := b.reports[id(i)]
						r.At, r.FailedAt, r.Failed = b.now, b.now, &round.Failed{Round: p.Round, Attempt: p.Attempt, Blamed: fmt.Sprintf("sl-%d", 1-i), Reason: "no byte for 10 s"}
						b.reports[id(i)] = r
					}
				}
				b.follow()
			}
			took := b.now.Sub(begun).Round(10 * time.Second)
			c := b.contract()
			if c.Over != model || took != 2*time.Minute || !strings.Contains(c.PendingReason, "no byte for 10 s") {
				t.Errorf("after %s, %d attempts: over: %t, %q", took, c.Attempt, c.Over, c.PendingReason)
			}
		})
	}
}

// TestOneThatComesAndGoesHoldsUpNoEnd: without whom there are too few, and who is dead in each attempt and back before the wait for it is over.
func TestOneThatComesAndGoesHoldsUpNoEnd(t *testing.T) {
	b := newTable(t, 2, 2)
	b.round(0, 1)
	b.ready(1, 0, 1)
	b.end()
	begun, live, attempts := b.now, true, 0
	for !b.contract().Over {
		if b.now.Sub(begun) > time.Hour {
			t.Fatalf("it goes on after an hour: %d attempts", attempts)
		}
		for d := b.decide(); d.Command != nil && !b.contract().Over; d = b.decide() {
			if d.Command.Type() == (state.PlanRound{}).Type() {
				attempts++
			}
			b.apply(d.Command)
		}
		b.now, live = b.now.Add(20*time.Second), !live
		b.apply(state.SetLive{Node: "sl-1", Live: live, AtMS: b.now.UnixMilli()})
		if live {
			b.ready(1, 0, 1)
		}
		for id, r := range b.reports { // heartbeats
			r.At = b.now
			b.reports[id] = r
		}
	}
	if attempts < 2 {
		t.Errorf("%d attempts", attempts)
	}
	if why := b.contract().PendingReason; !strings.Contains(why, "sl-1 is lost") {
		t.Errorf("ended: %s", why)
	}
}

// TestAnEndIsExplained where all who are ready have weight 0.
func TestAnEndIsExplained(t *testing.T) {
	b := newTable(t, 2, 3)
	b.round(0, 1, 2)
	b.ready(0, 0, 1)
	b.end()
	d := b.decide()
	text := d.Waiting.String() + "\n" + strings.Join(explain.Lines(d.Waiting, b.now.Add(3*time.Second)), "\n")
	for _, want := range []string{
		"all peers that are ready have weight 0: sl-0, sl-1; the round waits for sl-2, for 3 s",
		"if nothing changes training ends with the model of round 1 in 57 s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
}
