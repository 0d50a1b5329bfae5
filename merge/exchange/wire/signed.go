package wire

import (
	"io"

	"github.com/swarmd/swarmd/merge"
)

// SealSize is the length of a seal: of an Ed25519 signature.
const SealSize = 64

// Seal is an owner's word on its shard.
type Seal struct {
	Shard merge.Digest
	Sig   []byte
}

const sealLength = 32 + SealSize

// SealHeader is that of the frame in which an owner seals its shard.
func SealHeader(owner int) Header {
	return Header{KindSeal, uint32(owner), sealLength} //nolint:gosec // an index of at most MaxParticipants
}

// Frame returns the frame.
func (s Seal) Frame(owner int) []byte {
	b := append(SealHeader(owner).Append(nil), s.Shard[:]...)
	return append(b, s.Sig...)
}

// ReadSeal reads the payload of a frame whose header was that of a seal.
func ReadSeal(from io.Reader) (s Seal, err error) {
	b := make([]byte, sealLength)
	if _, err := io.ReadFull(from, b); err != nil {
		return Seal{}, err
	}
	copy(s.Shard[:], b)
	s.Sig = b[len(s.Shard):]
	return s, nil
}

// InputLength is what a contributor signs of its leaves in one shard: a digest, and the signature.
const InputLength = 32 + SealSize

// InputsHeader is that of the frame in which a contributor signs its leaves in so many shards.
func InputsHeader(contributor, shards int) Header {
	return Header{KindInputs, uint32(contributor), uint32(InputLength * shards)} //nolint:gosec // both up to MaxParticipants
}
