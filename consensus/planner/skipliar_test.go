package planner_test

import (
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// TestWhoCausesSkipsSitsOut has a liar say in each attempt that its leaves would go to a third owner. A skip leaves the round's number as
// it is, so counting rounds never came to an end.
func TestWhoCausesSkipsSitsOut(t *testing.T) {
	b := newTable(t, 2, 4)
	b.ready(1, 0, 1, 2, 3)
	b.follow()
	in, n := 0, 0
	for range 60 {
		p := b.contract().Plan
		if p == nil {
			b.now = b.now.Add(time.Second)
			b.follow()
			continue
		}
		n++
		if p.Participant(id(3)) == nil {
			break
		}
		in++
		b.refuses(3)
		skip, ok := b.decide().Command.(state.SkipRound)
		if !ok {
			t.Fatalf("no skip: %+v", b.decide())
		}
		b.apply(skip)
		// the liar's program (a fake one) offers the next at once
		r := b.reports[id(3)]
		r.Failed = nil
		rd := *r.Ready
		rd.Seq++
		r.Ready = &rd
		b.reports[id(3)] = r
		b.now = b.now.Add(200 * time.Millisecond)
		b.follow()
	}
	if n == 0 || in > 3 {
		t.Errorf("liar took part in %d attempts of round 1; no round is committed", in)
	}
}

// TestOwnersThatComeAndGoSitOut has an owner and its deputy leave together, again and again: each time everybody's Sync was skipped.
func TestOwnersThatComeAndGoSitOut(t *testing.T) {
	b := newTable(t, 2, 6)
	seq := uint64(1)
	skips := 0
	for cycle := range 40 {
		for i := range 6 {
			r := b.reports[id(i)]
			r.At, r.Failed, r.Done = b.now, nil, nil
			r.Ready = &round.Ready{Seq: seq, Weight: 1}
			b.reports[id(i)] = r
		}
		seq++
		b.now = b.now.Add(5 * time.Second)
		b.follow()
		p := b.contract().Plan
		if p == nil {
			t.Fatalf("cycle %d no plan", cycle)
		}
		if p.Participant(id(0)) == nil && p.Participant(id(1)) == nil {
			return
		}
		b.now = b.now.Add(100 * time.Millisecond)
		if c := b.dies(0).Command; c != nil {
			b.apply(c)
		}
		b.now = b.now.Add(100 * time.Millisecond)
		c := b.dies(1).Command
		if k, ok := c.(state.SkipRound); ok {
			skips++
			b.apply(k)
		} else if c != nil {
			b.apply(c)
		}
		for _, i := range []int{0, 1} {
			b.apply(state.SetLive{Node: name(i), Live: true, AtMS: b.now.UnixMilli()})
		}
	}
	t.Errorf("%d skips of one round, and both still take part", skips)
}
