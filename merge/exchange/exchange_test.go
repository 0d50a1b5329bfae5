package exchange_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/swarmd/swarmd/merge/exchange"
	"github.com/swarmd/swarmd/merge/mergetest"
)

func TestAllHoldTheSameModel(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + int(seed%5)
		l := randomLayout(t, rng)
		a := attempt(t, l, 1, make([]uint32, n)...)
		owners := make([]bool, n)
		for i := range n {
			a.Participants[i].Weight = uint32(rng.IntN(4))
			owners[i] = rng.IntN(3) > 0
		}
		a.Participants[rng.IntN(n)].Weight = 3
		owners[rng.IntN(n)] = true
		shards, err := mergetest.EqualShards(l.Leaves(), owners)
		if err != nil {
			t.Fatal(err)
		}
		var local, merged []*slot
		for i := range n {
			a.Participants[i].Shard = shards[i]
			local = append(local, randomWeights(l, rng))
			merged = append(merged, newSlot(l.Bytes()))
		}
		want := direct(t, a, local)
		synctest.Test(t, func(t *testing.T) {
			s := newSwarm(t, n, exchange.Config{})
			if seed >= 5 {
				s.extend = func(_ int, slots *exchange.Slots) { lend(slots) }
			}
			out := s.runAll(t.Context(), a, local, merged)
			mustAll(t, out)
			for i, o := range out {
				if !bytes.Equal(merged[i].b, want) {
					t.Errorf("seed %d: participant %d holds other bytes than a direct merge", seed, i)
				}
				if d := cmp.Diff(o.res.ShardDigests, out[0].res.ShardDigests); d != "" || o.res.ModelDigest != out[0].res.ModelDigest {
					t.Errorf("seed %d: participant %d has other digests: %s", seed, i, d)
				}
			}
		})
	}
}
