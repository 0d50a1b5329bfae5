// Package blake hashes with BLAKE3 in the calling goroutine, and faster than the library where there are vectors for it.
package blake

import (
	"lukechampine.com/blake3"
	"lukechampine.com/blake3/guts"
)

// Largest is how many bytes Sum hashes in the calling goroutine: a leaf of a model.
const Largest = 256 << 10

// Sum returns the BLAKE3-256 hash of b. Up to Largest bytes it touches b in the calling goroutine only, on which whoever hashes
// memory that can fault relies; the library hashes what is longer, in goroutines. Multiples of 16 KiB from twice that to Largest
// are the fast ones.
func Sum(b []byte) [32]byte {
	if len(b) > Largest {
		return blake3.Sum256(b)
	}
	n := max(1, (len(b)+subtree-1)/subtree)
	if len(b)%subtree == 0 && n > 1 {
		if sum, ok := sumVectors(b); ok {
			return sum
		}
	}
	return sumSubtrees(b, n)
}

// subtree is how many bytes the vector instructions hash side by side.
const subtree = guts.MaxSIMD * guts.ChunkSize

// sumSubtrees is blake3.Sum256 of n subtrees, of which the last may be shorter, in the calling goroutine. The library starts
// goroutines for what is longer than a chunk, which costs a busy daemon more than it gains: its cores hash other inputs at the
// same time.
func sumSubtrees(b []byte, n int) [32]byte {
	var cvs [Largest / subtree][8]uint32
	var last [subtree]byte // what is left, which may be less than a subtree
	var root guts.Node
	for i := range n {
		part, k := &last, subtree
		if rest := b[i*subtree:]; len(rest) >= subtree {
			part = (*[subtree]byte)(rest)
		} else {
			k = copy(last[:], rest)
		}
		root = guts.CompressBuffer(part, k, &guts.IV, uint64(i)*guts.MaxSIMD, 0)
		cvs[i] = guts.ChainingValue(root)
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
	if n == 2 {
		root = guts.ParentNode(cvs[0], cvs[1], &guts.IV, 0)
	}
	root.Flags |= guts.FlagRoot
	out := guts.WordsToBytes(guts.CompressNode(root))
	return [32]byte(out[:32])
}
