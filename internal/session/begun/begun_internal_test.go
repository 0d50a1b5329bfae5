package begun

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestBegunIsASetOfAttempts compares with a set, over attempts in any order and rounds that go on.
func TestBegunIsASetOfAttempts(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		var b *Record
		want, round := map[uint64]bool{}, uint64(1)
		for range 60 {
			number := uint64(rng.IntN(40))
			if rng.IntN(10) == 0 {
				number = math.MaxUint64 - uint64(rng.IntN(3)) // made up by an SN
			}
			if rng.IntN(30) == 0 {
				round++
				want = map[uint64]bool{}
			}
			after, err := b.After(1, round, number, round-1)
			if (err != nil) != want[number] {
				t.Fatalf("seed %d: attempt %d after %+v: %v", seed, number, b, err)
			}
			if _, old := b.After(1, round-1, number, 0); b != nil && b.Round == round && old == nil {
				t.Fatalf("seed %d: an attempt of round %d begins after %+v", seed, round-1, b)
			}
			if err != nil {
				continue
			}
			b, want[number] = after, true
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
		if b, err = b.After(1, 1, 2*n, 0); err != nil || len(b.Attempts) > maxSpans || b.Check() != nil {
			t.Fatalf("attempt %d: %v, %d spans, %v", 2*n, err, len(b.Attempts), b.Check())
		}
	}
	for n := uint64(1); n < 10*maxSpans; n++ {
		if _, err := b.After(1, 1, 2*n, 0); err == nil {
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
		if b, err = b.After(a.run, a.round, a.number, 0); err != nil || b.Check() != nil {
			t.Fatalf("%v: %v, %v", a, err, b.Check())
		}
	}
	for _, a := range all {
		if _, err := b.After(a.run, a.round, a.number, 0); err == nil {
			t.Errorf("%v begins twice", a)
		}
	}
	for n := range uint64(2 * maxRounds) {
		for k := range uint64(2 * maxOldSpans) {
			if after, err := b.After(2, 100+n, 1+2*k, 0); err == nil {
				b = after
			}
		}
	}
	for _, x := range b.all() {
		if len(b.Others) > maxRounds || x.Round != b.Round && len(x.Attempts) > maxOldSpans || b.Check() != nil {
			t.Errorf("it keeps %d rounds, one of %d gaps: %v", len(b.Others), len(x.Attempts), b.Check())
		}
	}
	if _, err := b.After(1, 1, 1, 0); err == nil {
		t.Error("an attempt begins twice after a flood")
	}
	b, err := b.After(1, 2, 9, 1)
	if err != nil || len(b.Others) > 0 {
		t.Fatalf("with the model of a round: %v, %+v", err, b)
	}
	if _, err := b.After(1, 1, 99, 0); err == nil {
		t.Error("a round that is passed begins again")
	}
}
