package merge

import (
	"encoding/hex"
	"fmt"

	"lukechampine.com/blake3"

	"github.com/swarmd/swarmd/merge/blake"
)

// Digest is a BLAKE3-256 hash. The zero value means "none".
type Digest [32]byte

// Sum returns the digest of b: of a leaf's bytes, or of a canonical layout.
func Sum(b []byte) Digest { return blake.Sum(b) }

// Combine returns the digest over the concatenated leaf digests. Over a
// shard's leaves it is the shard's digest, over all leaves the model's, which
// therefore does not depend on who owned what.
func Combine(leaves []Digest) Digest {
	h := blake3.New(32, nil)
	for i := range leaves {
		_, _ = h.Write(leaves[i][:]) // A hash never returns an error.
	}
	var d Digest
	h.Sum(d[:0])
	return d
}

// ParseDigest reads the lower or upper case hexadecimal form.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != 2*len(d) {
		return Digest{}, fmt.Errorf("parse digest: %d characters, want %d", len(s), 2*len(d))
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return Digest{}, fmt.Errorf("parse digest: %w", err)
	}
	return d, nil
}

// String returns 64 lower case hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d is the zero value.
func (d Digest) IsZero() bool { return d == Digest{} }
