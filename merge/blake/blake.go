// Package blake hashes with BLAKE3 in the calling goroutine, and faster than the library where there are vectors for it.
package blake

import (
	"lukechampine.com/blake3"
	"lukechampine.com/blake3/guts"
)

// Largest is how many bytes Sum hashes in its own way: a leaf of a model. The library hashes what is longer, in goroutines.
const Largest = 256 << 10

// Sum returns the BLAKE3-256 hash of b. Multiples of 16 KiB from twice that to Largest are the fast ones.
func Sum(b []byte) [32]byte {
	n := len(b) / subtree
	if len(b)%subtree != 0 || n < 2 || n > Largest/subtree {
		return blake3.Sum256(b)
	}
	if sum, ok := sumVectors(b); ok {
		return sum
	}
	return sumSubtrees(b, n)
}

// subtree is how many bytes the vector instructions hash side by side.
const subtree = guts.MaxSIMD * guts.ChunkSize

// sumSubtrees is blake3.Sum256 in the calling goroutine. The library starts one for each subtree, which costs a busy daemon
// more than it gains: its cores hash other inputs at the same time.
func sumSubtrees(b []byte, n int) [32]byte {
	var cvs [Largest / subtree][8]uint32
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
	return [32]byte(out[:32])
}
