package bench

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

const (
	// period is the number of random weights. It is prime, so that no leaf of a model is like another.
	period = 262_139
	// largest bounds the magnitude of a weight.
	largest = 0.5
)

// offers makes what the programs offer: weights such as a network has, small and of both signs. Each peer and sync begins at another
// place of one table, so writing them costs a copy of memory, and peer and sync alone determine every bit.
type offers struct{ table []byte }

func newOffers() *offers {
	o := &offers{table: make([]byte, 0, 4*period)}
	r := rand.New(rand.NewPCG(1, 1))
	for range period {
		o.table = binary.LittleEndian.AppendUint32(o.table, math.Float32bits(r.Float32()-largest))
	}
	return o
}

// write fills dst with what a peer offers at a sync, from the byte offset of its model on, a multiple of 4.
func (o *offers) write(dst []byte, peer, sync int, offset int64) {
	first := rand.New(rand.NewPCG(uint64(peer), uint64(sync))).Int64N(period)
	at := (first + offset/4) % period * 4
	for len(dst) > 0 {
		dst = dst[copy(dst, o.table[at:]):]
		at = 0
	}
}

// weightOf is the weight of a peer, 69 to 100: not the same for all, so that it matters.
func weightOf(peer int) int { return 100 - peer%32 }
