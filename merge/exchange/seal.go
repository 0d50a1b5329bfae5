package exchange

import (
	"encoding/binary"

	"github.com/swarmd/swarmd/merge"
)

// Sealed identifies what an owner seals: the shard that it has merged in one attempt.
type Sealed struct {
	Contract           string
	Run, Round, Number uint64
	Plan               merge.Digest // of Planned
	Owner              int          // index in the plan
	Shard              merge.Digest // over the digests of the shard's leaves
}

// SealMessage returns the canonical bytes that an owner's node key signs. The signature is its seal: who holds two of one
// attempt with different digests can prove that the owner has told two things.
func SealMessage(s Sealed) []byte {
	b := []byte("swarmd merge seal 1\x00")
	b = appendText(b, s.Contract)
	b = binary.LittleEndian.AppendUint64(b, s.Run)
	b = binary.LittleEndian.AppendUint64(b, s.Round)
	b = binary.LittleEndian.AppendUint64(b, s.Number)
	b = append(b, s.Plan[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.Owner)) //nolint:gosec // an index of at most MaxParticipants
	return append(b, s.Shard[:]...)
}
