package merge

import (
	"encoding/hex"
	"fmt"

	"lukechampine.com/blake3"
	"lukechampine.com/blake3/guts"
)

// Digest is a BLAKE3-256 hash. The zero value means "none".
type Digest [32]byte

// Sum returns the digest of b: of a leaf's bytes, or of a canonical layout.
func Sum(b []byte) Digest {
	if n := len(b) / subtree; len(b)%subtree == 0 && n >= 2 && n <= LeafSize/subtree {
		return sumSubtrees(b, n)
	}
	return blake3.Sum256(b)
}

// subtree is how many bytes the vector instructions hash side by side.
const subtree = guts.MaxSIMD * guts.ChunkSize

// sumSubtrees is blake3.Sum256 in the calling goroutine. The library starts one for each subtree, which costs a busy daemon
// more than it gains: its cores hash other leaves at the same time.
func sumSubtrees(b []byte, n int) Digest {
	var cvs [LeafSize / subtree][8]uint32
	for i := range n {
		part := (*[subtree]byte)(b[i*subtree:])
		cvs[i] = guts.ChainingValue(guts.CompressBuffer(part, subtree, &guts.IV, uint64(i)*guts.MaxSIMD, 0))
	}
	for n > 2 {
		for i := range n / 2 {
			cvs[i] = guts.ChainingValue(guts.ParentNode(cvs[2*i], cvs[2*i+1], &guts.IV, 0))
		}
		if n%2 == 1 {
			cvs[n/2] = cvs[n-1]
		}
		n = (n + 1) / 2
	}
	root := guts.ParentNode(cvs[0], cvs[1], &guts.IV, 0)
	root.Flags |= guts.FlagRoot
	out := guts.WordsToBytes(guts.CompressNode(root))
	return Digest(out[:len(Digest{})])
}

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
