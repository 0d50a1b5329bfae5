//go:build goexperiment.simd && amd64

package blake

import (
	"encoding/binary"
	"simd/archsimd"

	"lukechampine.com/blake3/guts"
)

// sumVectors is Sum of whole subtrees, at least 2 and at most Largest, if this processor has vectors for it.
//
// BLAKE3 hashes chunks of 1 KiB on their own and the results in pairs, up a binary tree. Sixteen of either are hashed side
// by side, one in each lane of a vector. The library does so too, but gathers every word of a message from sixteen places,
// which takes longer than to hash it. Here whole blocks are loaded and transposed.
func sumVectors(b []byte) (sum [32]byte, ok bool) {
	if !archsimd.X86.AVX512() {
		return [32]byte{}, false
	}
	var h hasher
	n := len(b) / guts.ChunkSize
	for at := 0; at < n; at += guts.MaxSIMD {
		h.chunks(at, (*[subtree]byte)(b[at*guts.ChunkSize:]))
	}
	for n > 1 {
		n = h.parents(n)
	}
	archsimd.ClearAVXUpperBits() // or the scalar code that follows would be slow
	for j := range h.tree {
		binary.LittleEndian.PutUint32(sum[4*j:], h.tree[j][0])
	}
	return sum, true
}

// hasher is what a sum needs besides the registers. Sixteen lanes hash sixteen blocks: each vector is one word of all.
type hasher struct {
	tree    [8][Largest / guts.ChunkSize]uint32 // word by word, the chaining values of a level of the tree
	message [16]archsimd.Uint32x16
	chain   [8]archsimd.Uint32x16 // from one block of a chunk to the next
	fence   archsimd.Uint32x16    // see compress
}

// chunks sets the chaining values of a subtree's chunks, the first of which is the input's chunk at.
func (h *hasher) chunks(at int, b *[subtree]byte) {
	h.start()
	counter := archsimd.LoadUint32x16(&lane).Add(archsimd.BroadcastUint32x16(uint32(at)))
	const blocks = guts.ChunkSize / guts.BlockSize
	for i := range blocks {
		var flags uint32
		switch i {
		case 0:
			flags = guts.FlagChunkStart
		case blocks - 1:
			flags = guts.FlagChunkEnd
		}
		h.load((*[column]byte)(b[i*guts.BlockSize:]))
		h.compress(counter, flags)
	}
	h.store(at)
}

// parents replaces a level of n > 1 nodes by the one above it and returns how many nodes that has. A last node without a
// partner moves up as it is. Lanes beyond the level hash what is there, and nothing reads that.
func (h *hasher) parents(n int) int {
	even, odd := archsimd.LoadUint32x16(&evens), archsimd.LoadUint32x16(&odds)
	var flags uint32 = guts.FlagParent
	if n == 2 {
		flags |= guts.FlagRoot
	}
	var last [8]uint32
	for j := range last {
		last[j] = h.tree[j][n-1]
	}
	for at := 0; at < n; at += 2 * guts.MaxSIMD {
		for j := range h.tree {
			x := archsimd.LoadUint32x16((*[16]uint32)(h.tree[j][at:]))
			y := archsimd.LoadUint32x16((*[16]uint32)(h.tree[j][at+16:]))
			h.message[j], h.message[8+j] = x.ConcatPermute(y, even), x.ConcatPermute(y, odd)
		}
		h.start()
		h.compress(archsimd.Uint32x16{}, flags)
		h.store(at / 2)
	}
	if n%2 == 1 {
		for j := range last {
			h.tree[j][n/2] = last[j]
		}
	}
	return (n + 1) / 2
}

// start sets the chaining values to those before the first block.
func (h *hasher) start() {
	for j := range h.chain {
		h.chain[j] = archsimd.BroadcastUint32x16(guts.IV[j])
	}
}

// store puts the chaining values at sixteen nodes of the tree.
func (h *hasher) store(at int) {
	for j := range h.chain {
		h.chain[j].Store((*[16]uint32)(h.tree[j][at:]))
	}
}

var (
	lane  = [16]uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	evens = [16]uint32{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}
	odds  = [16]uint32{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31}
)

// column is how many bytes there are from a block of the first chunk of a subtree to the end of the last chunk's.
const column = subtree - guts.ChunkSize + guts.BlockSize

// load transposes the next block of each chunk, which are a chunk apart, into the message.
func (h *hasher) load(b *[column]byte) {
	m := &h.message
	t0, t1, t2, t3 := transpose(front(b, 0), front(b, 1), front(b, 2), front(b, 3))
	t4, t5, t6, t7 := transpose(front(b, 4), front(b, 5), front(b, 6), front(b, 7))
	m[0], m[4] = braid(t0, t4)
	m[1], m[5] = braid(t1, t5)
	m[2], m[6] = braid(t2, t6)
	m[3], m[7] = braid(t3, t7)
	t0, t1, t2, t3 = transpose(back(b, 0), back(b, 1), back(b, 2), back(b, 3))
	t4, t5, t6, t7 = transpose(back(b, 4), back(b, 5), back(b, 6), back(b, 7))
	m[8], m[12] = braid(t0, t4)
	m[9], m[13] = braid(t1, t5)
	m[10], m[14] = braid(t2, t6)
	m[11], m[15] = braid(t3, t7)
}

// front has the first eight words of chunk c's block, then those of chunk c+8's.
func front(b *[column]byte, c int) archsimd.Uint32x16 {
	x := archsimd.LoadUint8x64((*[64]byte)(b[c*guts.ChunkSize:]))
	return x.SetHi(archsimd.LoadUint8x32((*[32]byte)(b[(c+8)*guts.ChunkSize:]))).AsUint32x16()
}

// back has the last eight words of both.
func back(b *[column]byte, c int) archsimd.Uint32x16 {
	x := archsimd.LoadUint8x64((*[64]byte)(b[(c+8)*guts.ChunkSize:]))
	return x.SetLo(archsimd.LoadUint8x32((*[32]byte)(b[c*guts.ChunkSize+32:]))).AsUint32x16()
}

// transpose turns four words of four rows around, in each quarter of the vectors.
func transpose(r0, r1, r2, r3 archsimd.Uint32x16) (_, _, _, _ archsimd.Uint64x8) {
	a, b := r0.InterleaveLoGrouped(r1).AsUint64x8(), r2.InterleaveLoGrouped(r3).AsUint64x8()
	c, d := r0.InterleaveHiGrouped(r1).AsUint64x8(), r2.InterleaveHiGrouped(r3).AsUint64x8()
	return a.InterleaveLoGrouped(b), a.InterleaveHiGrouped(b), c.InterleaveLoGrouped(d), c.InterleaveHiGrouped(d)
}

// braid takes the first and third quarter of x and y in turns, and the second and fourth.
func braid(x, y archsimd.Uint64x8) (_, _ archsimd.Uint32x16) {
	return x.ConcatPermute(y, archsimd.LoadUint64x8(&firsts)).AsUint32x16(), x.ConcatPermute(y, archsimd.LoadUint64x8(&seconds)).AsUint32x16()
}

var (
	firsts  = [8]uint64{0, 1, 8, 9, 4, 5, 12, 13}
	seconds = [8]uint64{2, 3, 10, 11, 6, 7, 14, 15}
)

// compress mixes the message into the chaining values, in seven rounds.
//
// The compiler has registers for all but one of the state's vectors, so the message stays in memory, as operands. The store
// between rounds keeps the compiler from loading each word of it once for all rounds, only to spill it at once.
//
//nolint:funlen // The order of the words differs by round, and looking it up in a table costs a sixth of the speed.
func (h *hasher) compress(counter archsimd.Uint32x16, flags uint32) {
	v, m := &h.chain, &h.message
	a0, a1, a2, a3, b0, b1, b2, b3 := v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]
	c0, c1 := archsimd.BroadcastUint32x16(guts.IV[0]), archsimd.BroadcastUint32x16(guts.IV[1])
	c2, c3 := archsimd.BroadcastUint32x16(guts.IV[2]), archsimd.BroadcastUint32x16(guts.IV[3])
	d0, d1 := counter, archsimd.Uint32x16{} // the counter has 64 bits, of which the input needs fewer than 32
	d2, d3 := archsimd.BroadcastUint32x16(guts.BlockSize), archsimd.BroadcastUint32x16(flags)

	a0, b0, c0, d0 = quarter(a0, b0, c0, d0, &m[0], &m[1])
	a1, b1, c1, d1 = quarter(a1, b1, c1, d1, &m[2], &m[3])
	a2, b2, c2, d2 = quarter(a2, b2, c2, d2, &m[4], &m[5])
	a3, b3, c3, d3 = quarter(a3, b3, c3, d3, &m[6], &m[7])
	a0, b1, c2, d3 = quarter(a0, b1, c2, d3, &m[8], &m[9])
	a1, b2, c3, d0 = quarter(a1, b2, c3, d0, &m[10], &m[11])
	a2, b3, c0, d1 = quarter(a2, b3, c0, d1, &m[12], &m[13])
	a3, b0, c1, d2 = quarter(a3, b0, c1, d2, &m[14], &m[15])

	h.fence = c0
	a0, b0, c0, d0 = quarter(a0, b0, c0, d0, &m[2], &m[6])
	a1, b1, c1, d1 = quarter(a1, b1, c1, d1, &m[3], &m[10])
	a2, b2, c2, d2 = quarter(a2, b2, c2, d2, &m[7], &m[0])
	a3, b3, c3, d3 = quarter(a3, b3, c3, d3, &m[4], &m[13])
	a0, b1, c2, d3 = quarter(a0, b1, c2, d3, &m[1], &m[11])
	a1, b2, c3, d0 = quarter(a1, b2, c3, d0, &m[12], &m[5])
	a2, b3, c0, d1 = quarter(a2, b3, c0, d1, &m[9], &m[14])
	a3, b0, c1, d2 = quarter(a3, b0, c1, d2, &m[15], &m[8])

	h.fence = c0
	a0, b0, c0, d0 = quarter(a0, b0, c0, d0, &m[3], &m[4])
	a1, b1, c1, d1 = quarter(a1, b1, c1, d1, &m[10], &m[12])
	a2, b2, c2, d2 = quarter(a2, b2, c2, d2, &m[13], &m[2])
	a3, b3, c3, d3 = quarter(a3, b3, c3, d3, &m[7], &m[14])
	a0, b1, c2, d3 = quarter(a0, b1, c2, d3, &m[6], &m[5])
	a1, b2, c3, d0 = quarter(a1, b2, c3, d0, &m[9], &m[0])
	a2, b3, c0, d1 = quarter(a2, b3, c0, d1, &m[11], &m[15])
	a3, b0, c1, d2 = quarter(a3, b0, c1, d2, &m[8], &m[1])

	h.fence = c0
	a0, b0, c0, d0 = quarter(a0, b0, c0, d0, &m[10], &m[7])
	a1, b1, c1, d1 = quarter(a1, b1, c1, d1, &m[12], &m[9])
	a2, b2, c2, d2 = quarter(a2, b2, c2, d2, &m[14], &m[3])
	a3, b3, c3, d3 = quarter(a3, b3, c3, d3, &m[13], &m[15])
	a0, b1, c2, d3 = quarter(a0, b1, c2, d3, &m[4], &m[0])
	a1, b2, c3, d0 = quarter(a1, b2, c3, d0, &m[11], &m[2])
	a2, b3, c0, d1 = quarter(a2, b3, c0, d1, &m[5], &m[8])
	a3, b0, c1, d2 = quarter(a3, b0, c1, d2, &m[1], &m[6])

	h.fence = c0
	a0, b0, c0, d0 = quarter(a0, b0, c0, d0, &m[12], &m[13])
	a1, b1, c1, d1 = quarter(a1, b1, c1, d1, &m[9], &m[11])
	a2, b2, c2, d2 = quarter(a2, b2, c2, d2, &m[15], &m[10])
	a3, b3, c3, d3 = quarter(a3, b3, c3, d3, &m[14], &m[8])
	a0, b1, c2, d3 = quarter(a0, b1, c2, d3, &m[7], &m[2])
	a1, b2, c3, d0 = quarter(a1, b2, c3, d0, &m[5], &m[3])
	a2, b3, c0, d1 = quarter(a2, b3, c0, d1, &m[0], &m[1])
	a3, b0, c1, d2 = quarter(a3, b0, c1, d2, &m[6], &m[4])

	h.fence = c0
	a0, b0, c0, d0 = quarter(a0, b0, c0, d0, &m[9], &m[14])
	a1, b1, c1, d1 = quarter(a1, b1, c1, d1, &m[11], &m[5])
	a2, b2, c2, d2 = quarter(a2, b2, c2, d2, &m[8], &m[12])
	a3, b3, c3, d3 = quarter(a3, b3, c3, d3, &m[15], &m[1])
	a0, b1, c2, d3 = quarter(a0, b1, c2, d3, &m[13], &m[3])
	a1, b2, c3, d0 = quarter(a1, b2, c3, d0, &m[0], &m[10])
	a2, b3, c0, d1 = quarter(a2, b3, c0, d1, &m[2], &m[6])
	a3, b0, c1, d2 = quarter(a3, b0, c1, d2, &m[4], &m[7])

	h.fence = c0
	a0, b0, c0, d0 = quarter(a0, b0, c0, d0, &m[11], &m[15])
	a1, b1, c1, d1 = quarter(a1, b1, c1, d1, &m[5], &m[0])
	a2, b2, c2, d2 = quarter(a2, b2, c2, d2, &m[1], &m[9])
	a3, b3, c3, d3 = quarter(a3, b3, c3, d3, &m[8], &m[6])
	a0, b1, c2, d3 = quarter(a0, b1, c2, d3, &m[14], &m[10])
	a1, b2, c3, d0 = quarter(a1, b2, c3, d0, &m[2], &m[12])
	a2, b3, c0, d1 = quarter(a2, b3, c0, d1, &m[3], &m[4])
	a3, b0, c1, d2 = quarter(a3, b0, c1, d2, &m[7], &m[13])

	v[0], v[1], v[2], v[3] = a0.Xor(c0), a1.Xor(c1), a2.Xor(c2), a3.Xor(c3)
	v[4], v[5], v[6], v[7] = b0.Xor(d0), b1.Xor(d1), b2.Xor(d2), b3.Xor(d3)
}

// quarter is a quarter of half a round: BLAKE3's function G, which mixes two words of the message into four of the state.
func quarter(a, b, c, d archsimd.Uint32x16, x, y *archsimd.Uint32x16) (_, _, _, _ archsimd.Uint32x16) {
	a = a.Add(*x).Add(b)
	d = d.Xor(a).RotateAllRight(16)
	c = c.Add(d)
	b = b.Xor(c).RotateAllRight(12)
	a = a.Add(*y).Add(b)
	d = d.Xor(a).RotateAllRight(8)
	c = c.Add(d)
	b = b.Xor(c).RotateAllRight(7)
	return a, b, c, d
}
