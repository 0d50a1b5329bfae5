package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/swarmd/swarmd/merge"
)

// MaxSum is what merge.Distances goes up to, so that the sum over all owners is finite.
const MaxSum = 1e300

// Norm is a contributor's signed word on its update over one shard.
type Norm struct {
	Squares float64
	Sig     [SealSize]byte
}

const normLength = 8 + SealSize

// NormHeader is that of the frame in which a contributor says its norm.
func NormHeader(contributor int) Header {
	return Header{KindNorm, uint32(contributor), normLength} //nolint:gosec // an index of at most MaxParticipants
}

// Append appends the payload.
func (n Norm) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(n.Squares))
	return append(b, n.Sig[:]...)
}

// ReadNorm reads what Append has written.
func ReadNorm(from io.Reader) (n Norm, err error) {
	var b [normLength]byte
	if _, err := io.ReadFull(from, b[:]); err != nil {
		return Norm{}, err
	}
	n.Squares = math.Float64frombits(binary.LittleEndian.Uint64(b[:]))
	if !(n.Squares >= 0 && n.Squares <= MaxSum) {
		return Norm{}, fmt.Errorf("%w: %g is no sum of squares", ErrFrame, n.Squares)
	}
	copy(n.Sig[:], b[8:])
	return n, nil
}

// Bounded is a sum of squares as it is told. What is beyond says nothing of distances, as a value that is not a number; the merge
// finds such a value and names it.
func Bounded(squares float64) float64 {
	if !(squares <= MaxSum) {
		return MaxSum
	}
	return squares
}

// Pairs returns the number of pairs of n.
func Pairs(n int) int { return n * (n - 1) / 2 }

// Share is what one owner knows of the distances: their sums over its shard, and what the contributors have signed of it.
type Share struct {
	Sums  []float64 // of pairs, see merge.Distances
	Norms []Norm    // by contributor
}

// Equal reports whether both say the same.
func (s Share) Equal(o Share) bool {
	return slices.Equal(s.Sums, o.Sums) && slices.Equal(s.Norms, o.Norms)
}

// Digest covers all of it.
func (s Share) Digest() merge.Digest { return merge.Sum(s.AppendFrame(nil)) }

// SumsHeader is that of the frame with an owner's share of the distances.
func SumsHeader(contributors int) Header {
	return Header{KindSums, uint32(contributors), uint32(8*Pairs(contributors) + normLength*contributors)} //nolint:gosec // check bounds them
}

// AppendFrame appends the frame. It goes out in one write: a reason that is told
// on a stream that broke off within it would be taken for sums.
func (s Share) AppendFrame(b []byte) []byte {
	b = SumsHeader(len(s.Norms)).Append(slices.Grow(b, HeaderSize+8*len(s.Sums)+normLength*len(s.Norms)))
	for _, v := range s.Sums {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	for _, n := range s.Norms {
		b = n.Append(b)
	}
	return b
}

// ReadShare reads the payload of a frame whose header was that of so many contributors.
func ReadShare(from io.Reader, contributors int) (Share, error) {
	sums, err := readSums(from, contributors)
	if err != nil {
		return Share{}, err
	}
	s := Share{Sums: sums, Norms: make([]Norm, contributors)}
	for i := range s.Norms {
		if s.Norms[i], err = ReadNorm(from); err != nil {
			return Share{}, err
		}
	}
	return s, nil
}

func readSums(from io.Reader, contributors int) ([]float64, error) {
	sums := make([]float64, Pairs(contributors))
	buf := make([]byte, min(8*len(sums), 64<<10))
	for at := 0; at < len(sums); {
		k := min(len(sums)-at, len(buf)/8)
		if _, err := io.ReadFull(from, buf[:8*k]); err != nil {
			return nil, err
		}
		for i := range k {
			v := math.Float64frombits(binary.LittleEndian.Uint64(buf[8*i:]))
			if !(v >= 0 && v <= MaxSum) {
				return nil, fmt.Errorf("%w: %g is no sum of squares", ErrFrame, v)
			}
			sums[at+i] = v
		}
		at += k
	}
	return sums, nil
}
