package chaos

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/mergetest"
)

// tensor is the name of the model's only one.
const tensor = "w"

// layoutOf is the model's layout.
func layoutOf(floats int) (*merge.Layout, error) {
	return merge.NewLayout([]merge.Tensor{{Name: tensor, DType: merge.Float32, Shape: []int64{int64(floats)}}})
}

// weightOf is the weight that a peer asks for: not all the same, so that it matters.
func weightOf(peer string) uint32 {
	return 10 + hash(peer, 0)%90
}

func hash(peer string, round uint64) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s %d", peer, round)
	return h.Sum32()
}

// offer writes what a peer offers after training from base, the model of a round (nil: none yet): half of it, and numbers that
// depend on peer and round. Whoever knows these three knows every bit of it.
func offer(dst []byte, peer string, round uint64, base []byte) {
	step := hash(peer, round)
	for i := 0; i+4 <= len(dst); i += 4 {
		step = step*1664525 + 1013904223
		x := float32(int32(step)>>8) / (1 << 20) //nolint:gosec // as meant
		if base != nil {
			half := math.Float32frombits(binary.LittleEndian.Uint32(base[i:])) / 2 // exact, so that no processor may fuse it
			x = half + x
		}
		binary.LittleEndian.PutUint32(dst[i:], math.Float32bits(x))
	}
}

// digestOf returns a model's digest as swarms name it.
func digestOf(l *merge.Layout, model []byte) string {
	d, _ := mergetest.Digests(nil, l, model, nil)
	return d.String()
}

// mergeOf returns the weighted mean of models, and says if it is not near to one that is computed in the plainest way: a mean
// that is wrong everywhere alike would else be called right.
func mergeOf(l *merge.Layout, weights []uint32, models [][]byte) ([]byte, error) {
	mean, err := merge.ParseMethod("mean")
	if err != nil {
		return nil, err
	}
	model, _, err := mergetest.Merge(mean, l, weights, models, nil, nil)
	if err != nil {
		return nil, err
	}
	var total float64
	for _, w := range weights {
		total += float64(w)
	}
	for i := 0; i+4 <= len(model); i += 4 {
		var sum float64
		for k, m := range models {
			sum += float64(weights[k]) * float64(math.Float32frombits(binary.LittleEndian.Uint32(m[i:])))
		}
		got := float64(math.Float32frombits(binary.LittleEndian.Uint32(model[i:])))
		if want := sum / total; math.Abs(got-want) > 1e-2 {
			return nil, fmt.Errorf("element %d is %g, the mean of what was offered is %g", i/4, got, want)
		}
	}
	return model, nil
}
