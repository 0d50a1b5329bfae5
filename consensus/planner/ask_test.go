package planner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
)

// holding has the participants of the running attempt say that they hold a model each, and no more than everybody signs.
func (b *table) holding(models ...int) {
	b.digests(nil, func(reporter int) int { return models[reporter] })
	b.shorten()
}

// asked begins a round of n and has its participants hold these models.
func asked(t *testing.T, need uint32, models ...int) *table {
	t.Helper()
	b := newTable(t, need, len(models))
	all := make([]int, len(models))
	for i := range all {
		all[i] = i
	}
	b.ready(1, all...)
	b.follow()
	b.holding(models...)
	return b
}

// TestOneOutcomeIsCommitted: nobody is asked for more.
func TestOneOutcomeIsCommitted(t *testing.T) {
	b := asked(t, 3, 1, 1, 1)
	over := b.reports[id(0)].Done.ShardsDigest
	c, ok := b.decide().Command.(state.CommitRound)
	if !ok || c.ShardsDigest != over || len(c.ShardDigests) != 0 || len(c.Signatures) != 3 {
		t.Errorf("proposes %+v", c)
	}
}

// TestWhoDoesNotAnswerIsSilent: it says that it holds another model, and not what it got. It is left out when one that reports nothing
// would be.
func TestWhoDoesNotAnswerIsSilent(t *testing.T) {
	for n := 2; n <= 4; n++ {
		models := make([]int, n)
		models[n-1] = 1
		b := asked(t, 1, models...)
		liar := id(n - 1)
		began := b.now
		for b.now.Before(began.Add(3 * time.Minute)) {
			if w := b.follow(); b.leftOut(n) != "" {
				break
			} else if !strings.Contains(fmt.Sprint(w.For, w.Detail), fmt.Sprintf("sl-%d", n-1)) {
				t.Fatalf("%d peers: waits for %s", n, w)
			}
			if p := b.contract().Plan; b.reports[id(0)].Done.Attempt != p.Attempt {
				b.holding(models...)
			}
			lie := b.reports[liar]
			b.digests(nil, func(int) int { return 0 })
			b.reports[liar] = lie
			b.now = b.now.Add(time.Second)
		}
		if got, want := b.leftOut(n), fmt.Sprintf("sl-%d", n-1); got != want || b.contract().Plan.Epoch != 1 {
			t.Errorf("%d peers: after %s without %q, want %s; epoch %d", n, b.now.Sub(began), got, want, b.contract().Plan.Epoch)
		}
		if took := b.now.Sub(began); took < time.Minute || took > time.Minute+10*time.Second {
			t.Errorf("%d peers: left out after %s, want the grace", n, took)
		}
	}
}

// TestWhoTakesItBackIsConvicted: its first word was signed too.
func TestWhoTakesItBackIsConvicted(t *testing.T) {
	b := asked(t, 2, 0, 0, 1)
	for range 2 {
		b.follow()
		b.digests(nil, func(int) int { return 0 })
		if w := b.follow(); w.Kind != planner.WaitRetry || !strings.Contains(w.Detail, "sl-2: signed two outcomes of one attempt") {
			t.Fatalf("waits: %s", w)
		}
		b.now = b.now.Add(time.Second)
		b.follow()
		if b.contract().Plan.Attempt < 3 {
			b.holding(0, 0, 1)
		}
	}
	if got := b.leftOut(3); got != "sl-2" {
		t.Errorf("attempt 3 is without %q", got)
	}
}

// TestAnotherLeaderAsksAgain: it commits nothing on what the one before had asked about.
func TestAnotherLeaderAsksAgain(t *testing.T) {
	b := asked(t, 2, 0, 0, 1)
	b.follow()
	for range 2 {
		b.memory = planner.Memory{}
		if w := b.follow(); w.Kind != planner.WaitMerging || b.contract().Round() != 0 {
			t.Fatalf("waits: %s", w)
		}
		one := b.reports[id(2)] // the others have answered the leader before
		b.digests(nil, func(int) int { return 0 })
		b.reports[id(2)] = one
	}
}

// TestWhoWasCheatedSaysSo: asked what it got it finds that its owner has sealed nothing of that. It is not convicted, and nothing that it or
// others hold is resumed.
func TestWhoWasCheatedSaysSo(t *testing.T) {
	b := asked(t, 2, 0, 0, 1)
	b.follow()
	b.digests(nil, func(int) int { return 0 })
	b.tells(2, word{failed: true, blamed: "sl-0"})
	if w := b.follow(); w.Kind != planner.WaitRetry || w.Detail != "sl-2 could not go on with sl-0: no byte" {
		t.Fatalf("waits: %s", w)
	}
	b.now = b.now.Add(time.Second)
	b.follow()
	if p := b.contract().Plan; p.Attempt != 2 || len(p.Participants) != 3 || p.Epoch != 1 {
		t.Errorf("plan %+v", p)
	}
}
