package leafio

import (
	"math/bits"
	"sync"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// pools are buffers for leaves, apart by the length of leaves, a power of two: with many peers a node has hundreds in use, and those of
// small models would otherwise take a large leaf's room each.
type pools [64]sync.Pool

var (
	leafPools  pools // of the leaves' length
	framePools pools // of that and a header's
)

// get returns a buffer of the pool for leaves of size bytes that is more bytes longer than that.
func (p *pools) get(size, more int) *[]byte {
	if b, ok := p[bits.Len(uint(size))].Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, more+size)
	return &b
}

func (p *pools) put(b *[]byte, more int) { p[bits.Len(uint(cap(*b)-more))].Put(b) }

// Room returns room for any leaf of the layout, with any content.
func Room(l *merge.Layout) []byte { return *leafPools.get(l.LeafSize(), 0) }

// Free takes back what Room returned, all of it.
func Free(b []byte) { leafPools.put(&b, 0) }

// FrameRoom returns room for the frame of any leaf of the layout. Its length is 0.
func FrameRoom(l *merge.Layout) *[]byte {
	b := framePools.get(l.LeafSize(), wire.HeaderSize)
	*b = (*b)[:0]
	return b
}

// FreeFrame takes back what FrameRoom returned.
func FreeFrame(b *[]byte) { framePools.put(b, wire.HeaderSize) }
