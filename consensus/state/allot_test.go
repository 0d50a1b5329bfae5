package state_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/state"
)

// own returns owners of weight 1 with a SPIFFE ID of each one's own.
func own(peers ...string) []state.Owner {
	var out []state.Owner
	for _, p := range peers {
		out = append(out, state.Owner{PeerID: p, SPIFFEID: "spiffe://td/swarm/sl/" + p, Weight: 1})
	}
	return out
}

// text writes shards as "first+leaves", those of one owner joined by commas.
func text(shards [][]state.LeafRun) []string {
	out := make([]string, len(shards))
	for i, runs := range shards {
		for k, r := range runs {
			if k > 0 {
				out[i] += ","
			}
			out[i] += fmt.Sprintf("%d+%d", r.First, r.Leaves)
		}
	}
	return out
}

func TestAllotFirst(t *testing.T) {
	with := func(owners []state.Owner, change func(o []state.Owner)) []state.Owner {
		change(owners)
		return owners
	}
	for name, c := range map[string]struct {
		leaves uint64
		owners []state.Owner
		byRule bool
		want   []string
		err    error
	}{
		"equal parts":             {8, own("a", "b", "c"), false, []string{"0+3", "3+3", "6+2"}, nil},
		"more owners than leaves": {2, own("a", "b", "c"), false, []string{"0+1", "1+1", ""}, nil},
		"no leaves":               {0, own("a", "b"), false, []string{"", ""}, nil},
		"weight 0":                {9, with(own("a", "b", "c"), func(o []state.Owner) { o[1].Weight = 0 }), false, []string{"0+5", "", "5+4"}, nil},
		"one wishes to own nothing": {
			9, with(own("a", "b", "c"), func(o []state.Owner) { o[0].NoShard = true }), false, []string{"", "0+5", "5+4"}, nil,
		},
		"all who contribute wish to own nothing": {
			9, with(own("a", "b", "c"), func(o []state.Owner) { o[0].NoShard, o[1].NoShard, o[2].Weight = true, true, 0 }), false,
			[]string{"0+5", "5+4", ""},
			nil,
		},
		"an ID of two sessions gets one part": {
			12, with(own("a", "b", "c"), func(o []state.Owner) { o[2].SPIFFEID = o[0].SPIFFEID }), false, []string{"0+3", "3+6", "9+3"}, nil,
		},
		"under a shared ID each node is one": {
			12, with(own("a", "b", "c"), func(o []state.Owner) {
				for i := range o {
					o[i].SPIFFEID = "spiffe://td/swarm/sl"
				}
			}), false, []string{"0+4", "4+4", "8+4"}, nil,
		},
		"the rule names one of weight 0": {
			9, with(own("a", "b", "c"), func(o []state.Owner) { o[1].Named, o[1].Weight = true, 0 }), true, []string{"", "0+9", ""}, nil,
		},
		"the rule names nobody who is there": {9, own("a", "b", "c"), true, nil, state.ErrNoOwner},
	} {
		t.Run(name, func(t *testing.T) {
			_, shards, err := state.Allot(c.leaves, nil, c.owners, c.byRule)
			if !errors.Is(err, c.err) {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			if diff := cmp.Diff(c.want, text(shards)); err == nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAllotLater: who is there keeps its leaves, one that is gone has a deputy, and a third there is never.
func TestAllotLater(t *testing.T) {
	var runs []state.OwnedRun
	for _, c := range []struct {
		there []string
		want  []string
		err   error
	}{
		{[]string{"a", "b", "c"}, []string{"0+4", "4+4", "8+4"}, nil},
		{[]string{"c", "b", "a"}, []string{"8+4", "4+4", "0+4"}, nil}, // no order moves them
		{[]string{"a", "c"}, []string{"0+6", "6+6"}, nil},
		{[]string{"a", "b", "c"}, []string{"0+4", "4+4", "8+4"}, nil}, // it is back
		{[]string{"a", "c", "d"}, []string{"0+6", "6+6", ""}, nil},    // and gone once more: the same deputies
		{[]string{"c", "d"}, nil, state.ErrThirdOwner},                // b's leaves 4 and 5 were a's
		{[]string{"b", "c", "d"}, []string{"0+2,4+4", "2+1,8+4", "3+1"}, nil},
	} {
		next, shards, err := state.Allot(12, runs, own(c.there...), false)
		if !errors.Is(err, c.err) {
			t.Fatalf("%v: got %v, want %v", c.there, err, c.err)
		}
		if err != nil {
			continue
		}
		if diff := cmp.Diff(c.want, text(shards)); diff != "" {
			t.Fatalf("%v: %s", c.there, diff)
		}
		runs = next
	}
}

// TestAllotTilesAndNeedsNoThird: whoever comes and goes, every leaf has one owner, and over all attempts two at most.
func TestAllotTilesAndNeedsNoThird(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		leaves, n := uint64(rng.IntN(40)), 1+rng.IntN(7)
		var runs []state.OwnedRun
		seen := make([][]string, leaves)
		for range 12 {
			var there []string
			for _, p := range rng.Perm(n) {
				if rng.IntN(4) > 0 {
					there = append(there, fmt.Sprint(p))
				}
			}
			next, shards, err := state.Allot(leaves, runs, own(there...), false)
			if err != nil {
				continue
			}
			runs = next
			held := make([]int, leaves)
			for i, shard := range shards {
				for _, r := range shard {
					for leaf := r.First; leaf < r.First+r.Leaves; leaf++ {
						held[leaf]++
						if !slices.Contains(seen[leaf], there[i]) {
							seen[leaf] = append(seen[leaf], there[i])
						}
					}
				}
			}
			for leaf, count := range held {
				if count != 1 || len(seen[leaf]) > 2 {
					t.Fatalf("seed %d: leaf %d has %d owners, and over all attempts %v", seed, leaf, count, seen[leaf])
				}
			}
		}
	}
}
