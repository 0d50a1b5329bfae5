package exchange_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// bent changes one bit of what is read.
type bent struct {
	exchange.Stream
	at   int64
	seen atomic.Int64
}

func (b *bent) Read(p []byte) (int, error) {
	n, err := b.Stream.Read(p)
	from := b.seen.Add(int64(n)) - int64(n)
	if k := b.at - from; k >= 0 && k < int64(n) {
		p[k] ^= 1
	}
	return n, err
}

// TestAnOwnerThatTellsOneReceiverOtherBytesShows holds that the results differ in that owner's shard and nowhere else: at
// whom it cheated; the owner's own names what the others have.
func TestAnOwnerThatTellsOneReceiverOtherBytesShows(t *testing.T) {
	const cheat, cheated = 1, 3
	for _, text := range []string{"mean", "geomedian", "fedadam"} {
		l, local, merged := floats(t, 12, 4)
		synctest.Test(t, func(t *testing.T) {
			tr := &training{t: t, method: canonical(t, text), layout: l, local: local}
			for i := range merged {
				merged[i] = tr.slot()
				tr.base, tr.spools = append(tr.base, nil), append(tr.spools, new(spools))
			}
			s := tr.join(newSwarm(t, 4, exchange.Config{}))
			s.wrap = func(from, to int, stream exchange.Stream) exchange.Stream {
				if from == cheated && to == cheat {
					return &bent{Stream: stream, at: merge.LeafSize}
				}
				return stream
			}
			out := s.runAll(t.Context(), tr.plan(attempt(t, l, 1, 1, 1, 1, 1)), local, merged)
			mustAll(t, out)
			for i, o := range out {
				for j := range out {
					same := o.res.ShardDigests[j] == out[j].res.ShardDigests[j] // What the owner itself says of its shard.
					if same == (i == cheated && j == cheat) {
						t.Errorf("%s: digest of shard %d at %d: the owner's own is equal: %v", text, j, i, same)
					}
				}
				if same := o.res.ModelDigest == out[0].res.ModelDigest; same == (i == cheated) {
					t.Errorf("%s: model at %d: equal: %v", text, i, same)
				}
			}
		})
	}
}
