package exchange

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/swarmd/swarmd/merge"
)

// Planned is what the participants of a round agree on, whichever attempt it is.
type Planned struct {
	Contract     string
	Run, Round   uint64
	Method       string
	Layout       merge.Digest
	Participants []Participant // in summation order; Node is a peer ID
	Epoch        uint64        // of [Attempt]
	Witnesses    int           // of [Attempt]
}

// Digest covers all of it: who signs an [Outcome] signs the weights of all
// participants, the method and the layout too.
func (p Planned) Digest() merge.Digest {
	witnessed := p.Witnesses > 1
	later := p.Epoch > 0 || witnessed || slices.ContainsFunc(p.Participants, func(x Participant) bool { return len(x.More) > 0 })
	b := []byte("swarmd merge plan 2\x00") // whatever version 2 could say is said so, and ledgers verify as ever
	if later {
		b = []byte("swarmd merge plan 3\x00")
		b = binary.LittleEndian.AppendUint64(b, p.Epoch)
	}
	b = appendText(b, p.Contract)
	b = binary.LittleEndian.AppendUint64(b, p.Run)
	b = binary.LittleEndian.AppendUint64(b, p.Round)
	b = appendText(b, p.Method)
	b = append(b, p.Layout[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Participants)))
	for _, x := range p.Participants {
		b = appendText(b, x.Node)
		b = appendText(b, x.Session)
		b = binary.LittleEndian.AppendUint32(b, x.Weight)
		b = binary.LittleEndian.AppendUint64(b, uint64(x.Shard.First))
		b = binary.LittleEndian.AppendUint64(b, uint64(x.Shard.Leaves))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x.Factor))
		if later {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(x.More)))
			for _, s := range x.More {
				b = binary.LittleEndian.AppendUint64(b, uint64(s.First))
				b = binary.LittleEndian.AppendUint64(b, uint64(s.Leaves))
			}
		}
	}
	if witnessed {
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Witnesses)) //nolint:gosec // Run bounds it
		for _, x := range p.Participants {
			b = appendText(b, x.Unit)
		}
	}
	return merge.Sum(b)
}
