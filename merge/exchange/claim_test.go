package exchange_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// distinct holds that what is changed gives another message each time.
func distinct[T any](t *testing.T, of func() T, message func(T) []byte, changes map[string]func(*T)) {
	t.Helper()
	seen := map[string]string{string(message(of())): "nothing"}
	for name, change := range changes {
		x := of()
		change(&x)
		m := string(message(x))
		if as := seen[m]; as != "" {
			t.Errorf("%s gives the message of %s", name, as)
		}
		seen[m] = name
	}
}

// TestInputMessages holds that what is signed of one shard is nothing signed of another, whichever attempt it is.
func TestInputMessages(t *testing.T) {
	type input struct {
		plan, digest       merge.Digest
		contributor, owner int
	}
	distinct(t, func() input { return input{} }, func(x input) []byte {
		return exchange.InputMessage(x.plan, x.contributor, x.owner, x.digest)
	}, map[string]func(*input){
		"plan":        func(x *input) { x.plan[0]++ },
		"contributor": func(x *input) { x.contributor++ },
		"owner":       func(x *input) { x.owner++ },
		"digest":      func(x *input) { x.digest[0]++ },
	})
}

// TestClaimsOfShards: what a claim says of a shard is what its owner seals.
func TestClaimsOfShards(t *testing.T) {
	c := round.Claim{Merged: merge.Sum(nil)}
	if c.Shard() != c.Merged {
		t.Error("without distances the shard's digest is not that of its leaves")
	}
	with := c
	with.Sums[0] = 1
	if with.Shard() == c.Merged || with.Shard() == with.Sums {
		t.Error("distances are no part of the shard's digest")
	}
}

// TestPlansNeedEnoughMergers: with fewer parties than the plan says nothing is merged.
func TestPlansNeedEnoughMergers(t *testing.T) {
	l, local, merged := floats(t, 6, 3)
	for name, c := range map[string]struct {
		k     int
		units [3]string
		ok    bool
	}{
		"off":         {0, [3]string{}, true},
		"owner alone": {1, [3]string{}, true},
		"two":         {2, [3]string{"a", "b", "a"}, true},
		"three":       {3, [3]string{"a", "b", "c"}, true},
		"too few":     {3, [3]string{"a", "b", "a"}, false},
		"one party":   {2, [3]string{"a", "a", "a"}, false},
		"no unit":     {2, [3]string{"a", "b", ""}, false},
		"below":       {-1, [3]string{"a", "b", "c"}, false},
		"above":       {exchange.MaxMergers + 1, [3]string{"a", "b", "c"}, false},
	} {
		a := attempt(t, l, 1, 1, 1, 1)
		a.Witnesses = c.k
		for i, u := range c.units {
			a.Participants[i].Unit = u
		}
		for i, o := range newSwarm(t, 3, exchange.Config{}).runAll(t.Context(), a, local, merged) {
			if c.ok && o.err != nil || !c.ok && !errors.Is(o.err, exchange.ErrPlan) {
				t.Errorf("%s: participant %d: got %v, accepted should be %v", name, i, o.err, c.ok)
			}
		}
	}
}

// TestDistancesOfWitnessesAreBounded: what a node adds up as a witness counts too, beside what it is told by owners.
func TestDistancesOfWitnessesAreBounded(t *testing.T) {
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{1 << 16}}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 256
	a := attempt(t, l, 1, slices.Repeat([]uint32{1}, n)...)
	a.Method = canonical(t, "geomedian").String()
	a = witnessing(a, 3)
	slots := exchange.Slots{Local: newSlot(l.Bytes()), Merged: newSlot(l.Bytes())}
	if _, err := newHub(0, exchange.Config{}).Run(t.Context(), a, slots, nil); !errors.Is(err, exchange.ErrPlan) || !strings.Contains(err.Error(), "distances") {
		t.Errorf("got %v, want that the distances do not fit", err)
	}
}
