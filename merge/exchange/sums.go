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

// share is what one owner knows of the distances: their sums over its shard, and what the contributors have signed of it.
type share struct {
	sums  []float64 // of pairs, see merge.Distances
	norms []norm    // by contributor
}

func (s share) equal(o share) bool {
	return slices.Equal(s.sums, o.sums) && slices.Equal(s.norms, o.norms)
}

// digest covers all of it.
func (s share) digest() merge.Digest { return merge.Sum(s.appendFrame(nil)) }

// sumsHeader is that of the frame with an owner's share of the distances.
func sumsHeader(contributors int) header {
	return header{kindSums, uint32(contributors), uint32(8*pairs(contributors) + normLength*contributors)} //nolint:gosec // check bounds them
}

// appendFrame appends the frame. It goes out in one write: a reason that is told
// on a stream that broke off within it would be taken for sums.
func (s share) appendFrame(b []byte) []byte { //nolint:unparam // the form of all frames
	b = sumsHeader(len(s.norms)).append(slices.Grow(b, headerSize+8*len(s.sums)+normLength*len(s.norms)))
	for _, v := range s.sums {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	for _, n := range s.norms {
		b = n.append(b)
	}
	return b
}

// readShare reads the payload of a frame whose header was that of so many contributors.
func readShare(from io.Reader, contributors int) (share, error) {
	sums, err := readSums(from, contributors)
	if err != nil {
		return share{}, err
	}
	s := share{sums: sums, norms: make([]norm, contributors)}
	for i := range s.norms {
		if s.norms[i], err = readNorm(from); err != nil {
			return share{}, err
		}
	}
	return s, nil
}

func readSums(from io.Reader, contributors int) ([]float64, error) {
	sums := make([]float64, pairs(contributors))
	buf := make([]byte, min(8*len(sums), 64<<10))
	for at := 0; at < len(sums); {
		k := min(len(sums)-at, len(buf)/8)
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
		s, changed := r.progress.shareOf(r.Self)
		return s != nil, changed
	})
	if err != nil || r.ctx.Err() != nil {
		return err
	}
	return c.write(r.sumsFrame(), true)
}

// sums takes the owner's share of the distances. Who owns nothing needs them for the owner's seal alone.
func (v *visitor) sums() error {
	if !v.method.Distances() {
		return nil
	}
	if err := v.expect(sumsHeader(len(v.who))); err != nil {
		return err
	}
	s, err := readShare(v.c, len(v.who))
	if err != nil {
		return err
	}
	if err := v.checkShare(v.j, s); err != nil {
		v.convict(v.j, err)
		return err
	}
	return v.progress.setShare(v.j, s)
}

// total waits for the shares of all owners and adds them in plan order, so that
// every owner has the same distances. It returns nil when the attempt has ended.
func (r *run) total() []float64 {
	total := make([]float64, pairs(len(r.who)))
	for j, p := range r.Participants {
		if p.Shard.Leaves == 0 {
			continue
		}
		s, changed := r.progress.shareOf(j)
		r.merging.rests()
		for s == nil {
			select {
			case <-changed:
			case <-r.ctx.Done():
				return nil
			}
			s, changed = r.progress.shareOf(j)
		}
		for i, v := range s.sums {
			total[i] += v
		}
	}
	r.does(&r.merging)
	return total
}
