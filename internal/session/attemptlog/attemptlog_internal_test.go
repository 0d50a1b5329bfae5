package attemptlog

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestBegunIsASetOfAttempts compares with a set, over attempts in any order and rounds that go on.
func TestBegunIsASetOfAttempts(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		var b *Record
		type attempt struct {
			number uint64
			plan   string
		}
		want, round := map[attempt]bool{}, uint64(1)
		for range 60 {
			number := uint64(rng.IntN(40))
			if rng.IntN(10) == 0 {
				number = math.MaxUint64 - uint64(rng.IntN(3)) // made up by an SN
			}
			if rng.IntN(30) == 0 {
				round++
				want = map[attempt]bool{}
			}
			a := attempt{number, []string{"p", "q", "r"}[rng.IntN(3)]}
			after, err := b.After(1, round, number, round-1, a.plan)
			if (err != nil) != want[a] {
				t.Fatalf("seed %d: attempt %d after %+v: %v", seed, number, b, err)
			}
			if _, old := b.After(1, round-1, number, 0, a.plan); b != nil && b.Round == round && old == nil {
				t.Fatalf("seed %d: an attempt of round %d begins after %+v", seed, round-1, b)
			}
			if err != nil {
				continue
			}
			b, want[a] = after, true
			if err := b.Check(); err != nil {
				t.Fatalf("seed %d: %v: %+v", seed, err, b)
			}
		}
	}
}

// TestBegunIsBounded: an SN that makes up numbers fills no record, and nothing that was begun begins again.
func TestBegunIsBounded(t *testing.T) {
	var b *Record
	for n := uint64(1); n < 10*maxSpans; n++ {
		var err error
		if b, err = b.After(1, 1, 2*n, 0, "p"); err != nil || len(b.Plans[0].Attempts) > maxSpans || b.Check() != nil {
			t.Fatalf("attempt %d: %v, %+v, %v", 2*n, err, b, b.Check())
		}
	}
	for n := uint64(1); n < 10*maxSpans; n++ {
		if _, err := b.After(1, 1, 2*n, 0, "p"); err == nil {
			t.Fatalf("attempt %d begins twice", 2*n)
		}
	}
}

// TestBegunOfOtherRounds: rounds and runs that an SN made up, before there was a model, take none away that is true, and nothing begins
// twice, whatever comes in between. There are only so many, and none counts any more once there is a model.
func TestBegunOfOtherRounds(t *testing.T) {
	var b *Record
	type attempt struct{ run, round, number uint64 }
	all := []attempt{{7, 1, 1}, {1, 1 << 60, 1}, {1, 1, 1}, {1, 1, 2}, {7, 1, 2}, {1, 2, 1}, {1, 1, 3}}
	for _, a := range all {
		var err error
		if b, err = b.After(a.run, a.round, a.number, 0, "p"); err != nil || b.Check() != nil {
			t.Fatalf("%v: %v, %v", a, err, b.Check())
		}
	}
	for _, a := range all {
		if _, err := b.After(a.run, a.round, a.number, 0, "p"); err == nil {
			t.Errorf("%v begins twice", a)
		}
	}
	for n := range uint64(2 * maxRounds) {
		for k := range uint64(2 * maxOldSpans) {
			if after, err := b.After(2, 100+n, 1+2*k, 0, "p"); err == nil {
				b = after
			}
		}
	}
	for _, x := range b.all() {
		if len(b.Others) > maxRounds || x.Round != b.Round && len(x.Plans[0].Attempts) > maxOldSpans || b.Check() != nil {
			t.Errorf("it keeps %d rounds, one of %d gaps: %v", len(b.Others), len(x.Plans[0].Attempts), b.Check())
		}
	}
	if _, err := b.After(1, 1, 1, 0, "p"); err == nil {
		t.Error("an attempt begins twice after a flood")
	}
	b, err := b.After(1, 2, 9, 1, "p")
	if err != nil || len(b.Others) > 0 {
		t.Fatalf("with the model of a round: %v, %+v", err, b)
	}
	if _, err := b.After(1, 1, 99, 0, "p"); err == nil {
		t.Error("a round that is passed begins again")
	}
}

// TestPlansOfAnSNUseNoNumbersUp: attempts of plans that an SN makes up leave those of the leader's plan, until there are very many plans. None is
// ever begun twice.
func TestPlansOfAnSNUseNoNumbersUp(t *testing.T) {
	var b *Record
	begin := func(attempt uint64, plan string) error {
		t.Helper()
		after, err := b.After(1, 1, attempt, 0, plan)
		if err != nil {
			return err
		}
		kept, err := json.Marshal(after)
		if err != nil {
			t.Fatal(err)
		}
		b = nil
		if err := json.Unmarshal(kept, &b); err != nil || b.Check() != nil {
			t.Fatalf("%s: %v, %v", kept, err, b.Check())
		}
		return nil
	}
	if err := begin(1, "true"); err != nil {
		t.Fatal(err)
	}
	made := func(n uint64) string { return fmt.Sprint("made up ", n) }
	for n := uint64(2); n < maxPlans; n++ {
		if err := begin(n, made(n)); err != nil {
			t.Fatal(err)
		}
	}
	for n := uint64(2); n < maxPlans; n++ {
		if err := begin(n, "true"); err != nil {
			t.Errorf("attempt %d of the true plan: %v", n, err)
		}
	}
	for n := uint64(maxPlans); n < 3*maxPlans; n++ {
		if err := begin(n, made(n)); err != nil {
			t.Fatal(err)
		}
	}
	for n := uint64(1); n < 3*maxPlans; n++ {
		if err := begin(n, made(n)); n > 1 && err == nil {
			t.Errorf("attempt %d is begun twice", n)
		}
		if err := begin(n, "true"); n < maxPlans && err == nil {
			t.Errorf("attempt %d of the true plan is begun twice", n)
		}
	}
}

// TestRecordsOfBefore: what was begun before plans were kept was begun by any.
func TestRecordsOfBefore(t *testing.T) {
	var b *Record
	if err := json.Unmarshal([]byte(`{"run":1,"round":3,"attempts":[{"first":1,"last":2}]}`), &b); err != nil || b.Check() != nil {
		t.Fatal(err, b.Check())
	}
	for attempt, want := range map[uint64]bool{1: false, 2: false, 3: true} {
		if _, err := b.After(1, 3, attempt, 0, "p"); (err == nil) != want {
			t.Errorf("attempt %d: %v", attempt, err)
		}
	}
}
