package exchange

import (
	"encoding/binary"

	"github.com/swarmd/swarmd/merge"
)

// MaxMergers bounds how many nodes merge each shard.
const MaxMergers = 8

// Claim is what one of a shard's mergers, its owner or a witness, has made of the shard, and of what. Two claims of honest mergers
// differ in nothing if each contributor has sent both of them the same.
type Claim struct {
	Owner  int          // index in the plan
	Merged merge.Digest // over the digests of the shard's leaves as they are to be stored: after an optimiser's step, and with 16 bits on the wire decoded
	Sums   merge.Digest // of the distances over the shard, with the contributors' signed norms; zero: the method needs none
	Inputs []Input      // of each participant of weight above 0, in plan order
}

// Input is what a contributor has signed of its leaves in one shard: see [InputMessage].
type Input struct {
	Digest    merge.Digest // over the digests of its leaves as they travel
	Signature []byte
}

// Shard returns the digest that the shard has if the claim is true, which is what its owner seals and every report has of it in
// ShardDigests. An owner whose own claim has another one, or a witness's claim that differs here, is what witnesses are there to find.
func (c Claim) Shard() merge.Digest {
	if c.Sums.IsZero() {
		return c.Merged
	}
	return withDistances(c.Merged, c.Sums)
}

// InputMessage returns the canonical bytes that a contributor's node key signs: the digest over those of its leaves in the owner's
// shard. It says no attempt: who has signed two digests of one shard under one plan has sent two things.
func InputMessage(plan merge.Digest, contributor, owner int, digest merge.Digest) []byte {
	b := append([]byte("swarmd merge input 1\x00"), plan[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(contributor)) //nolint:gosec // an index of at most MaxParticipants
	b = binary.LittleEndian.AppendUint32(b, uint32(owner))       //nolint:gosec // likewise
	return append(b, digest[:]...)
}
