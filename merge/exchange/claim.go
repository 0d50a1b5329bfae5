package exchange

import (
	"encoding/binary"

	"github.com/swarmd/swarmd/merge"
)

// MaxMergers bounds how many nodes merge each shard.
const MaxMergers = 8

// InputMessage returns the canonical bytes that a contributor's node key signs: the digest over those of its leaves in the owner's
// shard. It says no attempt: who has signed two digests of one shard under one plan has sent two things.
func InputMessage(plan merge.Digest, contributor, owner int, digest merge.Digest) []byte {
	b := append([]byte("swarmd merge input 1\x00"), plan[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(contributor)) //nolint:gosec // an index of at most MaxParticipants
	b = binary.LittleEndian.AppendUint32(b, uint32(owner))       //nolint:gosec // likewise
	return append(b, digest[:]...)
}
