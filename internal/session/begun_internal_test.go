package session

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestBegunIsASetOfAttempts compares with a set, over attempts in any order and rounds that go on.
func TestBegunIsASetOfAttempts(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		var b *Begun
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
			after, err := b.after(round, number)
			if (err != nil) != want[number] {
				t.Fatalf("seed %d: attempt %d after %+v: %v", seed, number, b, err)
			}
			if _, old := b.after(round-1, number); b != nil && b.Round == round && old == nil {
				t.Fatalf("seed %d: an attempt of round %d begins after %+v", seed, round-1, b)
			}
			if err != nil {
				continue
			}
			b, want[number] = after, true
			if err := b.check(); err != nil {
				t.Fatalf("seed %d: %v: %+v", seed, err, b)
			}
		}
	}
}

// TestBegunIsBounded: an SN that makes up numbers fills no record, and nothing that was begun begins again.
func TestBegunIsBounded(t *testing.T) {
	var b *Begun
	for n := uint64(1); n < 10*maxSpans; n++ {
		var err error
		if b, err = b.after(1, 2*n); err != nil || len(b.Attempts) > maxSpans || b.check() != nil {
			t.Fatalf("attempt %d: %v, %d spans, %v", 2*n, err, len(b.Attempts), b.check())
		}
	}
	for n := uint64(1); n < 10*maxSpans; n++ {
		if _, err := b.after(1, 2*n); err == nil {
			t.Fatalf("attempt %d begins twice", 2*n)
		}
	}
}
