package merge

import (
	"math"
	"math/bits"
)

// sorter sorts the contributors' values of each element. It applies a sorting
// network to strips of elements: the steps are the same for all values, so no
// branch depends on a value. Values are compared as integers of the same order
// as the numbers.
type sorter struct {
	n           int
	comparators [][2]uint16
	keys        []uint64 // n rows of a strip; for types of up to 32 bits the low half holds the owner
	owners      []uint16 // n rows of a strip: who each key belongs to, for the other types
	packed      bool     // the low half of a key holds its owner
	values      []float64
	order       []uint16
}

// newSorter sorts for n contributors. If need is not nil, only the ranks for
// which it is true come out right, with less work.
func newSorter(n int, need []bool) *sorter {
	s := &sorter{
		n: n, keys: make([]uint64, n*strip), owners: make([]uint16, n*strip),
		values: make([]float64, n), order: make([]uint16, n),
	}
	s.comparators = mergeExchange(n)
	if need == nil {
		return s
	}
	live := append([]bool(nil), need...)
	at := len(s.comparators)
	for i := at - 1; i >= 0; i-- {
		c := s.comparators[i]
		if live[c[0]] || live[c[1]] {
			live[c[0]], live[c[1]] = true, true
			at--
			s.comparators[at] = c
		}
	}
	s.comparators = s.comparators[at:]
	return s
}

// mergeExchange returns the comparators of Batcher's merge exchange sort for any n (Knuth, The Art of
// Computer Programming 3, 5.2.2, algorithm M).
func mergeExchange(n int) [][2]uint16 {
	var out [][2]uint16
	top := 1 << bits.Len(uint(max(n, 2)-1)) / 2
	for p := top; p > 0; p /= 2 {
		for q, r, d := top, 0, p; ; q, r, d = q/2, p, q-p {
			for i := range max(0, n-d) {
				if i&p == r {
					out = append(out, [2]uint16{uint16(i), uint16(i + d)})
				}
			}
			if q == p {
				break
			}
		}
	}
	return out
}

// load decodes and sorts k elements at a byte offset of the sources. It returns
// the first contributor and element that is not finite, or -1.
func (s *sorter) load(d DType, sources [][]byte, at, k int) (contributor, element int) {
	end := at + k*d.Size()
	s.packed = d == Float32 || d == Float16 || d == BFloat16
	for i, src := range sources {
		row := s.keys[i*strip : i*strip+k]
		if s.packed {
			if e := keys32(row, d, src[at:end], uint64(i)); e >= 0 {
				return i, e
			}
			continue
		}
		if e := keys64(row, d, src[at:end]); e >= 0 {
			return i, e
		}
		owners := s.owners[i*strip : i*strip+k]
		for e := range owners {
			owners[e] = uint16(i)
		}
	}
	for _, c := range s.comparators {
		i, j := int(c[0])*strip, int(c[1])*strip
		if s.packed {
			compareExchange32(s.keys[i:i+k], s.keys[j:j+k])
		} else {
			compareExchange64(s.keys[i:i+k], s.keys[j:j+k], s.owners[i:i+k], s.owners[j:j+k])
		}
	}
	return -1, -1
}

// keys32 fills row with the values' order in the high and i in the low half.
func keys32(row []uint64, d DType, b []byte, i uint64) int {
	var scratch [strip]float32
	x := load32(d, b, scratch[:])
	x = x[:len(row)]
	var carry uint32
	for e := range row {
		v := math.Float32bits(x[e])
		carry |= v&0x7fffffff + 0x00800000
		// The order of negative numbers is reversed, and all others come after them.
		v ^= uint32(int32(v)>>31) | 1<<31
		row[e] = uint64(v)<<32 | i
	}
	if carry>>31 == 0 {
		return -1
	}
	for e, v := range x {
		if !finite32(v) {
			return e
		}
	}
	return -1
}

func keys64(row []uint64, d DType, b []byte) int {
	var scratch [strip]float64
	x := widen(d, b, scratch[:])
	for e, f := range x {
		v := math.Float64bits(f)
		row[e] = v ^ (uint64(int64(v)>>63) | 1<<63)
	}
	return notFinite(x)
}

func compareExchange32(a, b []uint64) {
	b = b[:len(a)]
	for i := range a {
		x, y := a[i], b[i]
		a[i], b[i] = min(x, y), max(x, y)
	}
}

func compareExchange64(a, b []uint64, p, q []uint16) {
	b, p, q = b[:len(a)], p[:len(a)], q[:len(a)]
	for i := range a {
		if a[i] > b[i] {
			a[i], b[i] = b[i], a[i]
			p[i], q[i] = q[i], p[i]
		}
	}
}

// row decodes the values of one rank into out.
func (s *sorter) row(rank int, out []float64) {
	keys := s.keys[rank*strip : rank*strip+len(out)]
	if s.packed {
		for e, k := range keys {
			out[e] = number32(k)
		}
		return
	}
	for e, k := range keys {
		out[e] = number64(k)
	}
}

// value decodes the value of one rank of element e; owner returns its contributor.
func (s *sorter) value(rank, e int) float64 {
	k := s.keys[rank*strip+e]
	if s.packed {
		return number32(k)
	}
	return number64(k)
}

func (s *sorter) owner(rank, e int) int {
	if s.packed {
		return int(uint16(s.keys[rank*strip+e]))
	}
	return int(s.owners[rank*strip+e])
}

// column decodes one element's values in ascending order and returns them with their contributors.
func (s *sorter) column(e int) (v []float64, order []uint16) {
	for r := range s.n {
		k := s.keys[r*strip+e]
		if s.packed {
			s.values[r], s.order[r] = number32(k), uint16(k)
		} else {
			s.values[r], s.order[r] = number64(k), s.owners[r*strip+e]
		}
	}
	return s.values, s.order
}

func number32(key uint64) float64 {
	v := uint32(key >> 32)
	v ^= uint32(int32(^v)>>31) | 1<<31
	return float64(math.Float32frombits(v))
}

func number64(key uint64) float64 {
	return math.Float64frombits(key ^ (uint64(int64(^key)>>63) | 1<<63))
}

// columnwise merges by a function of each element's sorted values.
func columnwise(n int, choose func(s *sorter, e int) float64) leafFunc {
	s := newSorter(n, nil)
	return s.leaf(func(out []float64) {
		for e := range out {
			out[e] = choose(s, e)
		}
	})
}

// rankwise merges by the same weights for the ranks of every element; their sum
// is above 0. The result lies between the first and the last rank that counts.
func rankwise(ranks []float64) leafFunc {
	need := make([]bool, len(ranks))
	first, last, total := -1, 0, 0.0
	for r, w := range ranks {
		if w > 0 {
			need[r] = true
			if first < 0 {
				first = r
			}
			last = r
			total += w
		}
	}
	s := newSorter(len(ranks), need)
	row, low := make([]float64, strip), make([]float64, strip)
	return s.leaf(func(out []float64) {
		s.row(first, out)
		if first == last {
			return
		}
		copy(low, out)
		for e := range out {
			out[e] = float64(ranks[first] * out[e])
		}
		row := row[:len(out)]
		for r := first + 1; r <= last; r++ {
			s.row(r, row)
			for e := range out {
				out[e] += float64(ranks[r] * row[e])
			}
		}
		for e := range out {
			out[e] = min(max(out[e]/total, low[e]), row[e])
		}
	})
}

// leaf sorts strip by strip and stores what finish makes of each.
func (s *sorter) leaf(finish func(out []float64)) leafFunc {
	out := make([]float64, strip)
	return func(w *work) error {
		for _, g := range w.segments {
			size := g.DType.Size()
			for at := g.Start; at < g.End; at += strip * size {
				k := min(strip, (g.End-at)/size)
				if i, e := s.load(g.DType, w.sources, at, k); i >= 0 {
					b := w.sources[i][at+e*size : at+(e+1)*size]
					return &NonFinite{Contributor: i, Offset: int64(at + e*size), Value: loadFloat(g.DType, b)}
				}
				finish(out[:k])
				narrow(g.DType, w.dst[at:at+k*size], out[:k])
			}
		}
		return nil
	}
}

// middle returns the mean of two.
func middle(a, b float64) float64 {
	if m := (a + b) / 2; !math.IsInf(m, 0) {
		return m
	}
	return float64(a/2) + float64(b/2) // The sum is too large.
}

// equal reports whether all weights are the same.
func equal(weights []uint32) bool {
	for _, w := range weights {
		if w != weights[0] {
			return false
		}
	}
	return true
}
