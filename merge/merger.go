package merge

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/swarmd/swarmd/internal/text"
)

// ErrWeights is wrapped by errors about weights with which nothing can be merged.
var ErrWeights = errors.New("all weights are 0")

// MaxContributors is how many models can be merged.
const MaxContributors = 4096

// ErrContributors is wrapped when there are fewer contributors than the method
// needs, or what is known of them does not fit.
var ErrContributors = errors.New("contributors do not fit the method")

// Contributors describes those whose models are merged, in the order of the
// plan.
type Contributors struct {
	Weights   []uint32  // all above 0: a participant of weight 0 is no contributor
	Factors   []float64 // Method.BoundsNorms: one for each, 0 < f <= 1; else nil
	Distances []float64 // Method.Distances: squared, pairs (0,1), (0,2), …, (1,2), …; else nil
}

// work is one leaf to be merged. The sources are the contributors' bytes in
// plan order; base is nil if there is no committed model.
type work struct {
	dst, base []byte
	sources   [][]byte
	segments  []Segment
}

// leafFunc merges one leaf. It writes every byte of the segments and none
// between them, keeps no reference, allocates nothing unless it fails, and
// reports an element that is not finite as *NonFinite whose Offset counts from
// the leaf's start.
type leafFunc func(w *work) error

// NonFinite reports a value that is NaN or infinite, or so large that the
// merged value is.
type NonFinite struct {
	Contributor int    // index in the sources; -1: nobody's, such as a step's result
	Tensor      string // the tensor's name
	Index       int64  // element within the tensor, C order
	Offset      int64  // byte offset in the flat vector
	Value       float64
}

// Error names the tensor, the element and the value.
func (e *NonFinite) Error() string {
	return fmt.Sprintf("tensor %q element %d is %g", text.Clip(e.Tensor, 128), e.Index, e.Value)
}

// locate turns the offset in a leaf into tensor and element.
func (e *NonFinite) locate(l *Layout, leaf int) {
	e.Offset += l.LeafOffset(leaf)
	i := l.TensorAt(e.Offset)
	t := l.Tensor(i)
	e.Tensor = t.Name
	e.Index = (e.Offset - l.Offset(i)) / int64(t.DType.Size())
}

// Merger merges the leaves of one layout by one method. It holds scratch space
// and is for one goroutine.
type Merger struct {
	layout *Layout
	merge  leafFunc
	count  int
	work   work
}

// NewMerger returns a merger for these contributors. For a method with
// distances it decides here who takes part and how much.
func (m *Method) NewMerger(l *Layout, in Contributors) (*Merger, error) {
	n := len(in.Weights)
	if n == 0 || slices.Contains(in.Weights, 0) {
		return nil, fmt.Errorf("merge %d contributors: %w", n, ErrWeights)
	}
	if n > MaxContributors {
		return nil, fmt.Errorf("%w: there are %d, at most %d can be merged", ErrContributors, n, MaxContributors)
	}
	if least := m.LeastContributors(); n < least {
		return nil, fmt.Errorf("%w: %s needs %d, there are %d", ErrContributors, m, least, n)
	}
	if !m.spec.boundsNorms {
		in.Factors = nil
	} else if len(in.Factors) != n || slices.ContainsFunc(in.Factors, func(f float64) bool { return !(f > 0 && f <= 1) }) {
		return nil, fmt.Errorf("%w: %s needs a factor above 0 and up to 1 for each of %d", ErrContributors, m, n)
	}
	if !m.spec.distances {
		in.Distances = nil
	} else if len(in.Distances) != n*(n-1)/2 || slices.ContainsFunc(in.Distances, func(d float64) bool { return !(d >= 0 && d <= math.MaxFloat64) }) {
		return nil, fmt.Errorf("%w: %s needs %d finite squared distances", ErrContributors, m, n*(n-1)/2)
	}
	in.Weights = slices.Clone(in.Weights)
	return &Merger{layout: l, merge: m.spec.leaf(m.values, in), count: n}, nil
}

// Leaf merges one leaf into dst. dst and every source must have exactly the
// leaf's length; dst must not overlap a source. base is the committed model's
// leaf, nil if there is none; methods that do not use it ignore it. Leaf does
// not allocate unless it fails; its error is a *NonFinite when a value was not
// finite.
func (m *Merger) Leaf(leaf int, dst []byte, sources [][]byte, base []byte) error {
	if leaf < 0 || leaf >= m.layout.Leaves() || len(sources) != m.count {
		return fmt.Errorf("merge leaf %d: %d sources for %d weights and %d leaves",
			leaf, len(sources), m.count, m.layout.Leaves())
	}
	if err := checkLeaf(m.layout, leaf, dst, sources, base); err != nil {
		return err
	}
	w := &m.work
	w.dst, w.sources, w.base = dst, sources, base
	w.segments = m.layout.AppendSegments(w.segments[:0], leaf)
	clearPadding(dst, w.segments)
	err := m.merge(w)
	w.dst, w.sources, w.base = nil, nil, nil
	if err == nil {
		return nil // errors.As would allocate.
	}
	if nf := (*NonFinite)(nil); errors.As(err, &nf) {
		nf.locate(m.layout, leaf)
	}
	return err
}

// checkLeaf compares lengths with that of the leaf; a nil base is none.
func checkLeaf(l *Layout, leaf int, dst []byte, sources [][]byte, base []byte) error {
	n := l.LeafLen(leaf)
	if len(dst) != n {
		return fmt.Errorf("merge leaf %d: destination has %d bytes, want %d", leaf, len(dst), n)
	}
	for i := range sources {
		if len(sources[i]) != n {
			return fmt.Errorf("merge leaf %d: source %d has %d bytes, want %d", leaf, i, len(sources[i]), n)
		}
	}
	if base != nil && len(base) != n {
		return fmt.Errorf("merge leaf %d: the committed model has %d bytes, want %d", leaf, len(base), n)
	}
	return nil
}

// clearPadding zeroes what lies between the segments: padding is zero in every
// merged model, whatever contributors hold there.
func clearPadding(dst []byte, segments []Segment) {
	at := 0
	for _, s := range segments {
		clear(dst[at:s.Start])
		at = s.End
	}
	clear(dst[at:])
}

// blame finds the contributor of a non-finite result at a byte offset of the
// leaf: the first whose value is not finite, else the one of largest weighted
// magnitude, which made the sum overflow.
func blame(sources [][]byte, weights []uint32, d DType, offset int) *NonFinite {
	worst := &NonFinite{Contributor: -1, Offset: int64(offset)}
	size := d.Size()
	largest := -1.0
	for i, s := range sources {
		v := loadFloat(d, s[offset:offset+size])
		if math.IsNaN(v) || math.IsInf(v, 0) {
			worst.Contributor, worst.Value = i, v
			return worst
		}
		if a := math.Abs(v) * float64(weights[i]); a > largest {
			largest = a
			worst.Contributor, worst.Value = i, v
		}
	}
	return worst
}
