package leafset

// Bitmap has one bit for each leaf of a shard, lowest bit first.
type Bitmap []byte

// NewBitmap returns one without any of so many leaves.
func NewBitmap(leaves int) Bitmap { return make(Bitmap, (leaves+7)/8) }

// Get reports whether a leaf is in it.
func (m Bitmap) Get(i int) bool { return m[i/8]>>(i%8)&1 != 0 }

// Set adds a leaf.
func (m Bitmap) Set(i int) { m[i/8] |= 1 << (i % 8) }

// All reports whether the first n are set.
func (m Bitmap) All(n int) bool {
	for k := range n {
		if !m.Get(k) {
			return false
		}
	}
	return true
}
