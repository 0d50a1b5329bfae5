package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

func digestOfRound(n uint64) string { return fmt.Sprintf("%064x", n) }

// signedRound is a round of these nodes that one of them has signed.
func (b *table) signedRound(signer int, round uint64, nodes ...int) ledger.Round {
	c := b.contract()
	r := ledger.Round{
		Contract: contractName, Run: c.Run, Round: round, Attempt: 1, Method: c.Terms.Method, Layout: c.Terms.LayoutDigest, Model: digestOfRound(round),
	}
	for i, n := range nodes {
		p := ledger.Participant{Node: fmt.Sprintf("sl-%d", n), PeerID: fmt.Sprintf("sl-%d", n), Session: id(n), Weight: 1, ShardFirst: c.Terms.Leaves}
		if i == 0 {
			p.ShardFirst, p.ShardLeaves = 0, c.Terms.Leaves
		}
		if n == signer {
			p.Signature = []byte(fmt.Sprintf("signed by sl-%d", n))
		}
		r.Participants = append(r.Participants, p)
	}
	return r
}

// proves has a session report that its node holds the models of these rounds, and its signatures of those that it merged with all others.
func (b *table) proves(session, of int, rounds ...uint64) {
	b.holds(session, rounds...)
	r := b.reports[id(session)]
	all := make([]int, of)
	for i := range all {
		all[i] = i
	}
	for _, n := range rounds {
		r.Proofs = append(r.Proofs, b.signedRound(session, n, all...))
	}
	b.reports[id(session)] = r
}

// restoredTable is a swarm of five that stands at round 2 again, though its nodes were at 71.
func restoredTable(t *testing.T) *table {
	t.Helper()
	b := newTable(t, 2, 5)
	b.round(0, 1, 2, 3, 4)
	b.round(0, 1, 2, 3, 4)
	clear(b.reports)
	return b
}

// TestRestoredBehindTheNodes: the newest model that most have signed is taken, as soon as it is known what all can prove.
func TestRestoredBehindTheNodes(t *testing.T) {
	five := func(rounds ...uint64) func(b *table) {
		return func(b *table) {
			for i := range 5 {
				b.proves(i, 5, rounds...)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		report func(b *table)
		proven uint64        // 0: none is taken
		as     uint64        // its number
		signed int           // by so many
		after  time.Duration // at the earliest
	}{
		{"all hold it", five(71, 70), 71, 72, 5, 0},
		{"two are one round ahead", func(b *table) {
			five(71, 70)(b)
			b.proves(0, 5, 72, 71)
			b.proves(1, 5, 72, 71)
		}, 71, 73, 5, 0},
		{"most are one round ahead", func(b *table) {
			five(72, 71)(b)
			b.proves(0, 5, 71)
			b.proves(1, 5, 71)
		}, 72, 73, 3, 0},
		{"one says nothing", func(b *table) {
			five(71)(b)
			delete(b.reports, id(4))
		}, 71, 72, 4, 5 * time.Second},
		{"one has proven nothing yet", func(b *table) {
			five(71)(b)
			b.holds(4, 71)
		}, 71, 72, 4, 5 * time.Second},
		{"one is new", func(b *table) {
			five(71)(b)
			b.holds(4)
		}, 71, 72, 4, 0},
		{"most lag", func(b *table) {
			five(70, 69)(b)
			b.proves(0, 5, 71, 70)
		}, 70, 72, 5, 0},
		{"they have no round in common", func(b *table) {
			for i := range 5 {
				b.proves(i, 5, 60+uint64(i))
			}
		}, 0, 0, 0, 0},
		{"signed and not held", func(b *table) {
			five(71)(b)
			for i := range 5 {
				r := b.reports[id(i)]
				r.Held = []round.Model{{Round: 70, Digest: digestOfRound(70)}}
				b.reports[id(i)] = r
			}
		}, 0, 0, 0, 0},
		{"two lie", func(b *table) {
			for i := range 5 {
				b.holds(i, 2)
			}
			for i := range 2 {
				b.holds(i, 1<<60, 2)
				r := b.reports[id(i)]
				r.Proofs = []ledger.Round{b.signedRound(i, 1<<60, 0, 1)}
				b.reports[id(i)] = r
			}
		}, 0, 0, 0, 0},
		{"two lie to those who are ahead", func(b *table) {
			five(71)(b)
			for i := range 2 {
				b.holds(i, 1<<60)
				r := b.reports[id(i)]
				r.Proofs = []ledger.Round{b.signedRound(i, 1<<60, 0, 1), b.signedRound(i, 1<<60, 0, 1, 2, 3, 4)}
				b.reports[id(i)] = r
			}
		}, 71, 72, 3, 0},
		{"two sign another model", func(b *table) {
			five(71)(b)
			for i := range 2 {
				r := b.reports[id(i)]
				r.Proofs[0].Model = digestOfRound(99)
				r.Held = []round.Model{{Round: 71, Digest: digestOfRound(99)}}
				b.reports[id(i)] = r
			}
		}, 71, 72, 3, 0},
		{"two sign another attempt", func(b *table) {
			five(71)(b)
			for i := range 2 {
				b.reports[id(i)].Proofs[0].Attempt = 2
			}
		}, 71, 72, 3, 0},
		{"three sign each another attempt", func(b *table) {
			five(71)(b)
			for i := range 3 {
				b.reports[id(i)].Proofs[0].Attempt = 2 + uint64(i)
			}
		}, 0, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := restoredTable(t)
			began := b.now
			d := b.wait(50*time.Second, func() { tt.report(b) })
			a, ok := d.Command.(state.AdoptRound)
			if tt.proven == 0 {
				if ok || d.Command != nil {
					t.Errorf("%T within the grace: %s", d.Command, d.Waiting)
				}
				return
			}
			if !ok || a.Proof.Round != tt.proven || a.Proof.Model != digestOfRound(tt.proven) || a.Round != tt.as || a.Last != 2 {
				t.Fatalf("%+v: %s", d.Command, d.Waiting)
			}
			if n := b.now.Sub(began); n < tt.after || n > tt.after+time.Second {
				t.Errorf("taken after %v, want %v", n, tt.after)
			}
			signed := 0
			for _, p := range a.Proof.Participants {
				if len(p.Signature) > 0 {
					signed++
				}
			}
			if signed != tt.signed {
				t.Errorf("%d signatures, want %d", signed, tt.signed)
			}
			b.apply(a)
			clear(b.reports)
			b.now = b.now.Add(time.Second)
			b.ready(1, 0, 1, 2, 3, 4)
			if p, ok := b.decide().Command.(state.PlanRound); !ok || p.Round != tt.as+1 {
				t.Errorf("afterwards %+v", b.decide())
			}
		})
	}
}

// TestNothingIsPlannedBeforeItIsDecided: who has the old model waits with the others. Of those that are dead it is not known what they have,
// so most of all must have signed until they had the time to come back; then most of those who are there.
func TestNothingIsPlannedBeforeItIsDecided(t *testing.T) {
	b := restoredTable(t)
	for _, n := range []int{0, 1} {
		b.apply(state.SetLive{Node: fmt.Sprintf("sl-%d", n), Live: false, AtMS: 1})
	}
	began := b.now
	d := b.wait(2*time.Minute, func() {
		b.ready(1, 4)
		for _, i := range []int{2, 3} {
			b.proves(i, 3, 71)
			r := b.reports[id(i)]
			r.Proofs = []ledger.Round{b.signedRound(i, 71, 2, 3, 4)}
			b.reports[id(i)] = r
		}
		if since := b.now.Sub(began); since > 0 && since < time.Minute {
			if w := b.decide().Waiting; w.Kind != planner.WaitProof || !strings.Contains(w.String(), "know nothing behind round 2, and sl-2, sl-3 reported models up to round 71") {
				t.Fatalf("after %v: %s", since, w)
			}
		}
	})
	if a, ok := d.Command.(state.AdoptRound); !ok || a.Round != 72 || b.now.Sub(began) < time.Minute {
		t.Errorf("%+v after %v: %s", d.Command, b.now.Sub(began), d.Waiting)
	}
}

// TestUnprovenClaimsStallNothingForLong: most say that they hold a newer model and none can prove it, as after a power cut in a round that was
// merged and not committed. Once they were asked training goes on, and it is not waited for them again.
func TestUnprovenClaimsStallNothingForLong(t *testing.T) {
	b := restoredTable(t)
	began := b.now
	report := func() {
		b.ready(1, 0, 1)
		for i := range 5 {
			if i > 1 {
				b.holds(i, 71)
			} else {
				r := b.reports[id(i)]
				r.Held = []round.Model{{Round: b.contract().Committed.Round, Digest: b.contract().Committed.Digest}}
				b.reports[id(i)] = r
			}
		}
	}
	d := b.wait(3*time.Minute, report)
	p, ok := d.Command.(state.PlanRound)
	if took := b.now.Sub(began); !ok || took < 5*time.Second || took > 40*time.Second { // who is not ready is waited for as always
		t.Fatalf("%T after %v: %s", d.Command, took, d.Waiting)
	}
	b.apply(p)
	b.apply(state.CommitRound{Contract: contractName, Run: 1, Round: p.Round, Attempt: p.Attempt, Digest: digestOfRound(500), NextInterval: 1, AtMS: b.now.UnixMilli()})
	began = b.now
	d = b.wait(time.Minute, report)
	if _, ok := d.Command.(state.PlanRound); !ok || b.now.Sub(began) > 40*time.Second {
		t.Errorf("the round after that: %T after %v: %s", d.Command, b.now.Sub(began), d.Waiting)
	}
}

// TestClaimsOfTheUncommitted: all hold a model that was merged and never committed, and signatures of older rounds.
func TestClaimsOfTheUncommitted(t *testing.T) {
	b := restoredTable(t)
	began := b.now
	d := b.wait(time.Minute, func() {
		b.ready(1, 0, 1, 2, 3, 4)
		for i := range 5 {
			r := b.reports[id(i)]
			r.Held = []round.Model{{Round: 3, Digest: digestOfRound(3)}, {Round: b.contract().Committed.Round, Digest: b.contract().Committed.Digest}}
			r.Proofs = []ledger.Round{b.signedRound(i, 2, 0, 1, 2, 3, 4)}
			b.reports[id(i)] = r
		}
	})
	if _, ok := d.Command.(state.PlanRound); !ok || b.now.Sub(began) > 10*time.Second {
		t.Errorf("%T after %v: %s", d.Command, b.now.Sub(began), d.Waiting)
	}
}

// TestOneProvesLater: who came last has as long as the others had to prove what it holds.
func TestOneProvesLater(t *testing.T) {
	b := restoredTable(t)
	began := b.now
	d := b.wait(30*time.Second, func() {
		since := b.now.Sub(began)
		for i := range 5 {
			delete(b.reports, id(i))
			switch {
			case i < 2 || since >= 8*time.Second:
				b.proves(i, 5, 71)
			case since >= 4*time.Second:
				b.holds(i, 71)
			}
		}
	})
	if a, ok := d.Command.(state.AdoptRound); !ok || a.Proof.Round != 71 || b.now.Sub(began) > 9*time.Second {
		t.Errorf("%+v after %v: %s", d.Command, b.now.Sub(began), d.Waiting)
	}
}

// TestPlanOfBeforeTheBackup: what was being merged when the backup was made is given up for what is proven.
func TestPlanOfBeforeTheBackup(t *testing.T) {
	b := restoredTable(t)
	b.ready(1, 0, 1, 2, 3, 4)
	b.apply(b.decide().Command)
	for i := range 5 {
		b.proves(i, 5, 71)
	}
	a, ok := b.decide().Command.(state.AdoptRound)
	if !ok || b.contract().Plan == nil {
		t.Fatalf("%+v", b.decide())
	}
	b.apply(a)
	if c := b.contract(); c.Plan != nil || c.Round() != 72 || !slices.Equal(c.Committed.Participants, []string{"sl-0", "sl-1", "sl-2", "sl-3", "sl-4"}) {
		t.Errorf("%+v", c)
	}
}
