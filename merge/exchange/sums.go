package exchange

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/swarmd/swarmd/merge"
)

// maxSum is what merge.Distances goes up to, so that the sum over all owners is finite.
const maxSum = 1e300

// maxDistances bounds what an owner holds of all owners' distances, in bytes.
const maxDistances = 64 << 20

// pairs returns the number of pairs of n.
func pairs(n int) int { return n * (n - 1) / 2 }

// sumsHeader is that of the frame with an owner's share of the distances.
func sumsHeader(contributors int) header {
	return header{kindSums, uint32(contributors), uint32(8 * pairs(contributors))} //nolint:gosec // check bounds them
}

// appendSums appends the frame. It goes out in one write: a reason that is told
// on a stream that broke off within it would be taken for sums.
func appendSums(b []byte, contributors int, sums []float64) []byte { //nolint:unparam // the form of all frames
	b = sumsHeader(contributors).append(slices.Grow(b, headerSize+8*len(sums)))
	for _, v := range sums {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// readSums reads the payload of a frame whose header was that of so many contributors.
func readSums(from io.Reader, contributors int) ([]float64, error) {
	sums := make([]float64, pairs(contributors))
	buf := getLeaf()
	defer putLeaf(buf)
	for at := 0; at < len(sums); {
		k := min(len(sums)-at, merge.MaxLeafSize/8)
		if _, err := io.ReadFull(from, buf[:8*k]); err != nil {
			return nil, err
		}
		for i := range k {
			v := math.Float64frombits(binary.LittleEndian.Uint64(buf[8*i:]))
			if !(v >= 0 && v <= maxSum) {
				return nil, fmt.Errorf("%w: %g is no sum of squares", errFrame, v)
			}
			sums[at+i] = v
		}
		at += k
	}
	return sums, nil
}

// giveSums sends the own share of the distances when it is known.
func (r *run) giveSums(c *conn) error {
	if !r.method.Distances() {
		return nil
	}
	err := r.await(c, func() (bool, <-chan struct{}) {
		s, changed := r.progress.sumsOf(r.Self)
		return s != nil, changed
	})
	if err != nil || r.ctx.Err() != nil {
		return err
	}
	return c.write(r.sumsFrame(), true)
}

// sums takes the owner's share of the distances; of use is it to owners only.
func (v *visitor) sums() error {
	if !v.method.Distances() {
		return nil
	}
	if err := v.expect(sumsHeader(len(v.who))); err != nil {
		return err
	}
	sums, err := readSums(v.c, len(v.who))
	if err != nil || v.Participants[v.Self].Shard.Leaves == 0 {
		return err
	}
	return v.progress.setSums(v.j, sums)
}

// total waits for the shares of all owners and adds them in plan order, so that
// every owner has the same distances. It returns nil when the attempt has ended.
func (r *run) total() []float64 {
	total := make([]float64, pairs(len(r.who)))
	for j, p := range r.Participants {
		if p.Shard.Leaves == 0 {
			continue
		}
		sums, changed := r.progress.sumsOf(j)
		r.merging.rests()
		for sums == nil {
			select {
			case <-changed:
			case <-r.ctx.Done():
				return nil
			}
			sums, changed = r.progress.sumsOf(j)
		}
		for i, v := range sums {
			total[i] += v
		}
	}
	r.does(&r.merging)
	return total
}
