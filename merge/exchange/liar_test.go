package exchange_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// witnesses starts a training of five whose shards have k mergers each.
func witnesses(t *testing.T, text string, k int) (*training, *swarm, exchange.Attempt) {
	t.Helper()
	const n = 5
	rng := rand.New(rand.NewPCG(1, uint64(k)))
	l, _, _ := floats(t, 2, 1)
	l = l.WithLeafSize(merge.MaxLeafSize / 16)
	tr := newTraining(t, canonical(t, text), l, n, true, rng)
	return tr, tr.join(newSwarm(t, n, exchange.Config{})), witnessing(tr.plan(attempt(t, l, 1, 1, 2, 1, 3, 2)), k)
}

// TestWhoMergesOtherwiseIsContradicted: everybody holds what the owner gave and sealed, and that alone shows nothing. Its witnesses'
// claims show it, and so do the others' claims where it is a witness itself.
func TestWhoMergesOtherwiseIsContradicted(t *testing.T) {
	const liar = 1
	for _, text := range []string{"mean", "coordmedian", "geomedian", "fedadam", "normclip(factor=1.5)", "mean(wire=float16)"} {
		for _, k := range []int{2, 3} {
			synctest.Test(t, func(t *testing.T) {
				tr, s, a := witnesses(t, text, k)
				s.lies = func(hub int) bool { return hub == liar }
				out := s.runAll(t.Context(), a, tr.local, tr.merged)
				mustAll(t, out)
				for owner := range a.Participants {
					sealed := out[0].res.ShardDigests[owner]
					claims := claimed(t, a, out, owner)
					var honest *round.Claim
					for i, c := range claims {
						if got := out[i].res.ShardDigests[owner]; got != sealed {
							t.Errorf("%s, k=%d: %d holds other bytes of the shard of %d", text, k, i, owner)
						}
						if fits := c.Shard().String() == sealed; fits != ((i == liar) == (owner == liar)) {
							t.Errorf("%s, k=%d: %d claims what was sealed by %d: %v", text, k, i, owner, fits)
						}
						if d := cmp.Diff(c.Inputs, claims[owner].Inputs); d != "" {
							t.Errorf("%s, k=%d: %d had other inputs to the shard of %d: %s", text, k, i, owner, d)
						}
						if i == liar {
							continue
						}
						if honest == nil {
							honest = &c
						}
						if d := cmp.Diff(*honest, c); d != "" {
							t.Errorf("%s, k=%d: honest claims of the shard of %d differ: %s", text, k, owner, d)
						}
					}
				}
			})
		}
	}
}

// TestFalseDistancesAreContradicted: an owner tells everybody the same distances, which fit all norms and are not true.
func TestFalseDistancesAreContradicted(t *testing.T) {
	const liar = 1
	synctest.Test(t, func(t *testing.T) {
		tr, s, a := witnesses(t, "geomedian", 3)
		s.wrap = func(_, to int, stream exchange.Stream) exchange.Stream {
			if to != liar {
				return stream
			}
			return &bent{Stream: stream, change: func(sums []byte) {
				v := math.Float64frombits(binary.LittleEndian.Uint64(sums))
				binary.LittleEndian.PutUint64(sums, math.Float64bits(v*1.01))
			}, seal: func(shard merge.Digest) []byte { return sign(node(liar), exchange.SealMessage(sealed(a, liar, shard))) }}
		}
		out := s.runAll(t.Context(), a, tr.local, tr.merged)
		mustAll(t, out)
		claims := claimed(t, a, out, liar)
		told := out[0].res.ShardDigests[liar]
		var honest *round.Claim
		for i, c := range claims {
			if i == liar {
				continue // What it told was changed on the way: its claim has the true ones.
			}
			if honest == nil {
				honest = &c
			}
			if c.Shard().String() == told || c.Sums != claims[liar].Sums || c.Merged != honest.Merged || out[i].res.ShardDigests[liar] != told {
				t.Errorf("%d: claim %v of distances of which everybody was told the same", i, c)
			}
		}
	})
}

// forging changes one bit of each leaf of some that is written and, if it is given a name, what the contributor signs of them.
type forging struct {
	exchange.Stream
	leaves  []int
	sign    func(owner int, d merge.Digest) []byte // nil: it stays as it is
	shards  [][]int                                // leaves of the shards that the receiver merges
	owners  []int                                  // of these
	sent    map[int]merge.Digest
	pending []byte
}

func (f *forging) Write(p []byte) (int, error) {
	f.pending = append(f.pending, p...)
	for len(f.pending) >= 9 {
		n := 9 + int(binary.LittleEndian.Uint32(f.pending[5:]))
		if len(f.pending) < n {
			break
		}
		whole := f.pending[:n]
		switch leaf := int(binary.LittleEndian.Uint32(whole[1:])); {
		case whole[0] == 3 || whole[0] == 7:
			if slices.Contains(f.leaves, leaf) {
				whole[11] ^= 0x40
			}
			f.sent[leaf] = merge.Sum(whole[9:])
		case whole[0] == 10 && f.sign != nil:
			for k, owner := range f.owners {
				var digests []merge.Digest
				for _, leaf := range f.shards[k] {
					digests = append(digests, f.sent[leaf])
				}
				d := merge.Combine(digests)
				copy(whole[9+96*k:], append(d[:], f.sign(owner, d)...))
			}
		}
		if _, err := f.Stream.Write(whole); err != nil {
			return 0, err
		}
		f.pending = f.pending[n:]
	}
	return len(p), nil
}

// forge has contributor from send participant to other leaves of an owner's shard than it sends others, and sign them with a key;
// none: it signs what it should have sent.
func forge(a exchange.Attempt, s *swarm, from, to, owner int, key string) {
	s.wrap = func(i, j int, stream exchange.Stream) exchange.Stream {
		if i != from || j != to {
			return stream
		}
		f := &forging{Stream: stream, leaves: shard(a.Participants[owner]), sent: map[int]merge.Digest{}}
		for o, by := range mergers(a) {
			if slices.Contains(by, to) {
				f.owners, f.shards = append(f.owners, o), append(f.shards, shard(a.Participants[o]))
			}
		}
		if key != "" {
			f.sign = func(o int, d merge.Digest) []byte {
				return sign(key, exchange.InputMessage(a.Planned().Digest(), from, o, d))
			}
		}
		return f
	}
}

// TestWhoSendsTwoThingsHasSignedBoth: owner and witness both hold the contributor's own word on what they got, and only there do
// they differ.
func TestWhoSendsTwoThingsHasSignedBoth(t *testing.T) {
	const liar, owner, witness = 4, 1, 2
	for _, text := range []string{"mean", "geomedian", "fedadam"} {
		synctest.Test(t, func(t *testing.T) {
			tr, s, a := witnesses(t, text, 2)
			forge(a, s, liar, witness, owner, node(liar))
			out := s.runAll(t.Context(), a, tr.local, tr.merged)
			mustAll(t, out)
			for o := range a.Participants {
				claims := claimed(t, a, out, o) // The signatures are held to their messages.
				for i, c := range claims {
					for j, in := range c.Inputs {
						two := o == owner && i == witness && j == liar
						if same := in.Digest == claims[o].Inputs[j].Digest; same == two {
							t.Errorf("%s: %d has what the owner has of %d in the shard of %d: %v", text, i, j, o, same)
						}
					}
					if same := c.Shard().String() == out[0].res.ShardDigests[o]; same == (o == owner && i == witness) {
						t.Errorf("%s: %d claims what was sealed by %d: %v", text, i, o, same)
					}
				}
			}
			if text == "mean" {
				tr.verify(a, out) // Nobody but the witness has got it.
			}
		})
	}
}

// TestWhoSignsOtherLeavesIsBlamed: a word that does not fit what came is refused where it is heard.
func TestWhoSignsOtherLeavesIsBlamed(t *testing.T) {
	const liar, owner = 4, 1
	for k, text := range []string{"mean", "mean(wire=bfloat16)", "geomedian", "fedadam"} {
		for _, to := range []int{1, 2} { // the owner, and its witness
			key := []string{"", node(2)}[k%2]
			synctest.Test(t, func(t *testing.T) {
				tr, s, a := witnesses(t, text, 2)
				forge(a, s, liar, to, owner, key)
				out := s.runAll(t.Context(), a, tr.local, tr.merged)
				if blamed(out[to].err) != liar || heardFrom(out[to].err) != -1 {
					t.Errorf("%s: %d: got %v, want that it blames %d for itself", text, to, out[to].err, liar)
				}
			})
		}
	}
}
