package merge

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// ErrMethod is wrapped by errors about an unknown merge method.
var ErrMethod = errors.New("unknown merge method")

// ErrWeights is wrapped by errors about weights with which nothing can be merged.
var ErrWeights = errors.New("all weights are 0")

// LeafFunc merges one leaf. The sources are the contributors' bytes of that
// leaf in the participants' order, each as long as dst; weights are theirs,
// none of them 0. It writes every byte of the segments and none between them,
// keeps no reference, and reports an element that is not finite as *NonFinite
// whose Offset counts from the leaf's start.
type LeafFunc func(dst []byte, sources [][]byte, weights []uint32, segments []Segment) error

// methods is the registry: one line for each method, one file for each.
var methods = map[string]LeafFunc{
	"mean": meanLeaf,
}

// Methods returns the names of all methods, sorted.
func Methods() []string { return slices.Sorted(maps.Keys(methods)) }

// CheckMethod returns an error that names the known methods when name is none.
func CheckMethod(name string) error {
	if _, ok := methods[name]; !ok {
		return fmt.Errorf("%w %q: use one of %s", ErrMethod, clip(name, 64), strings.Join(Methods(), ", "))
	}
	return nil
}

// NonFinite says that a value was NaN or infinite, or so large that the merge
// was.
type NonFinite struct {
	Contributor int    // index in the sources
	Tensor      string // the tensor's name
	Index       int64  // element within the tensor, C order
	Offset      int64  // byte offset in the flat vector
	Value       float64
}

// Error names the tensor, the element and the value.
func (e *NonFinite) Error() string {
	return fmt.Sprintf("tensor %q element %d is %g", clip(e.Tensor, 128), e.Index, e.Value)
}

// Merger merges the leaves of one layout by one method. It holds scratch space
// and is for one goroutine.
type Merger struct {
	layout   *Layout
	leaf     LeafFunc
	segments []Segment
	weights  []uint32
}

// NewMerger returns a merger for contributors with these weights, which all
// must be above 0: a participant of weight 0 is no contributor.
func NewMerger(l *Layout, method string, weights []uint32) (*Merger, error) {
	if err := CheckMethod(method); err != nil {
		return nil, err
	}
	if len(weights) == 0 || slices.Contains(weights, 0) {
		return nil, fmt.Errorf("merge %d contributors: %w", len(weights), ErrWeights)
	}
	return &Merger{layout: l, leaf: methods[method], weights: slices.Clone(weights)}, nil
}

// Leaf merges one leaf into dst. dst and every source must have exactly the
// leaf's length; dst must not overlap a source. It does not allocate unless it
// fails; its error is a *NonFinite when a value was not finite.
func (m *Merger) Leaf(leaf int, dst []byte, sources [][]byte) error {
	if leaf < 0 || leaf >= m.layout.Leaves() || len(sources) != len(m.weights) {
		return fmt.Errorf("merge leaf %d: %d sources for %d weights and %d leaves",
			leaf, len(sources), len(m.weights), m.layout.Leaves())
	}
	n := m.layout.LeafLen(leaf)
	if len(dst) != n {
		return fmt.Errorf("merge leaf %d: destination has %d bytes, want %d", leaf, len(dst), n)
	}
	for i := range sources {
		if len(sources[i]) != n {
			return fmt.Errorf("merge leaf %d: source %d has %d bytes, want %d", leaf, i, len(sources[i]), n)
		}
	}
	m.segments = m.layout.AppendSegments(m.segments[:0], leaf)
	at := 0
	for _, s := range m.segments {
		// Padding is zero in every merged model, whatever contributors hold there.
		clear(dst[at:s.Start])
		at = s.End
	}
	clear(dst[at:])
	err := m.leaf(dst, sources, m.weights, m.segments)
	if err == nil {
		return nil // Apart from what follows, which would allocate.
	}
	if nf := (*NonFinite)(nil); errors.As(err, &nf) {
		m.locate(nf, leaf)
	}
	return err
}

// locate turns the offset in a leaf into tensor and element.
func (m *Merger) locate(nf *NonFinite, leaf int) {
	nf.Offset += m.layout.LeafOffset(leaf)
	i := m.layout.TensorAt(nf.Offset)
	t := m.layout.Tensor(i)
	nf.Tensor = t.Name
	nf.Index = (nf.Offset - m.layout.Offset(i)) / int64(t.DType.Size())
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
