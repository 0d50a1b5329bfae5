package exchange

import (
	"encoding/binary"
	"math"

	"github.com/swarmd/swarmd/merge"
)

// Normed identifies what a contributor says of its update over one owner's shard.
type Normed struct {
	Plan               merge.Digest // of Planned
	Contributor, Owner int          // indices in the plan
	Squares            float64      // the sum of squares of the update, see merge.UpdateSquares
}

// NormMessage returns the canonical bytes that a contributor's node key signs.
func NormMessage(n Normed) []byte {
	b := append([]byte("swarmd merge norm 1\x00"), n.Plan[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Contributor)) //nolint:gosec // an index of at most MaxParticipants
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Owner))       //nolint:gosec // likewise
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(n.Squares))
}
