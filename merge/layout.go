package merge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"unicode/utf8"

	"github.com/swarmd/swarmd/internal/text"
)

// Bounds of a layout. They hold for what a peer or a program sends, before
// anything is allocated by its numbers.
const (
	MaxTensors     = 100_000
	MaxTensorName  = 512
	MaxDims        = 64
	MaxElements    = int64(1) << 40
	MaxLayoutBytes = 1 << 20
)

// Bounds of a leaf's length in bytes, powers of two and so multiples of every element size: no element lies across two leaves.
const (
	MinLeafSize = 1 << 10
	MaxLeafSize = 256 << 10 // of models from 64 MiB on
)

// leavesWanted is how many leaves a model has at most, if the bounds allow it. It has at least half as many, so a small model has
// many owners too.
const leavesWanted = 256

// ErrLayout is wrapped by every error about a layout that breaks the rules.
var ErrLayout = errors.New("layout is not valid")

// Tensor is one named array of the model.
type Tensor struct {
	Name  string  // 1 to 512 bytes of UTF-8 without control characters, unique
	DType DType   // element type
	Shape []int64 // C order; empty for a scalar; a 0 means no elements
}

// Elements returns the product of the shape, 1 for a scalar. It is only
// meaningful for tensors of a Layout, whose product is bounded.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// String returns dtype and shape, such as "float32[10,64]".
func (t Tensor) String() string {
	b := append([]byte(t.DType.String()), '[')
	b = appendInts(b, t.Shape)
	return string(append(b, ']'))
}

// Layout is the validated order of tensors in the flat vector. It is immutable
// and safe for concurrent use.
type Layout struct {
	tensors   []Tensor
	offsets   []int64
	units     []int64 // 4-byte units of optimiser state before each tensor
	bytes     int64
	leafSize  int64
	canonical []byte
	digest    Digest
}

// NewLayout checks the tensors, copies them and assigns offsets.
func NewLayout(tensors []Tensor) (*Layout, error) {
	if len(tensors) == 0 || len(tensors) > MaxTensors {
		return nil, fmt.Errorf("%w: %d tensors, want 1 to %d", ErrLayout, len(tensors), MaxTensors)
	}
	l := &Layout{tensors: make([]Tensor, len(tensors)), offsets: make([]int64, len(tensors)), units: make([]int64, len(tensors))}
	seen := make(map[string]int, len(tensors))
	var elements, units int64
	for i, t := range tensors {
		n, err := checkTensor(t)
		if err != nil {
			return nil, fmt.Errorf("%w: tensor %d: %w", ErrLayout, i, err)
		}
		if j, dup := seen[t.Name]; dup {
			return nil, fmt.Errorf("%w: tensors %d and %d are both named %q", ErrLayout, j, i, text.Clip(t.Name, 64))
		}
		seen[t.Name] = i
		if elements += n; elements > MaxElements {
			return nil, fmt.Errorf("%w: more than %d elements", ErrLayout, MaxElements)
		}
		size := int64(t.DType.Size())
		t.Shape = slices.Clone(t.Shape)
		l.tensors[i] = t
		l.offsets[i] = (l.bytes + size - 1) / size * size
		l.bytes = l.offsets[i] + n*size
		l.units[i] = units
		units += n * stateUnit(t.DType)
	}
	for l.leafSize = MinLeafSize; l.leafSize < MaxLeafSize && l.leafSize*leavesWanted < l.bytes; {
		l.leafSize *= 2
	}
	l.canonical = appendCanonical(nil, l.tensors)
	if len(l.canonical) > MaxLayoutBytes {
		return nil, fmt.Errorf("%w: its canonical form has %d bytes, at most %d are allowed: shorten the tensor names",
			ErrLayout, len(l.canonical), MaxLayoutBytes)
	}
	l.digest = Sum(l.canonical)
	return l, nil
}

func checkTensor(t Tensor) (elements int64, err error) {
	if t.Name == "" || len(t.Name) > MaxTensorName {
		return 0, fmt.Errorf("name has %d bytes, want 1 to %d", len(t.Name), MaxTensorName)
	}
	if !utf8.ValidString(t.Name) {
		return 0, errors.New("name is not UTF-8")
	}
	for i := range len(t.Name) {
		if t.Name[i] < 0x20 || t.Name[i] == 0x7f {
			return 0, fmt.Errorf("name %q contains a control character", text.Clip(t.Name, 64))
		}
	}
	if !t.DType.Valid() {
		return 0, fmt.Errorf("%q: %w: %s", text.Clip(t.Name, 64), ErrDType, t.DType)
	}
	if len(t.Shape) > MaxDims {
		return 0, fmt.Errorf("%q has %d dimensions, at most %d are allowed", text.Clip(t.Name, 64), len(t.Shape), MaxDims)
	}
	elements = 1
	empty := false
	for _, d := range t.Shape {
		if d < 0 || d > MaxElements {
			return 0, fmt.Errorf("%q: dimension %d is out of range", text.Clip(t.Name, 64), d)
		}
		if d == 0 {
			empty = true
			continue
		}
		// Both factors are at most 2^40, so divide before multiplying.
		if elements > MaxElements/d {
			return 0, fmt.Errorf("%q has more than %d elements", text.Clip(t.Name, 64), MaxElements)
		}
		elements *= d
	}
	if empty {
		return 0, nil
	}
	return elements, nil
}

// ParseLayout reads a canonical layout and refuses every other spelling, so
// that one layout has exactly one digest. The input may be hostile.
func ParseLayout(b []byte) (*Layout, error) {
	if len(b) > MaxLayoutBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrLayout, len(b), MaxLayoutBytes)
	}
	var doc struct {
		Version int `json:"version"`
		Tensors []struct {
			Name  string  `json:"name"`
			DType string  `json:"dtype"`
			Shape []int64 `json:"shape"`
		} `json:"tensors"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLayout, err)
	}
	if doc.Version != 1 {
		return nil, fmt.Errorf("%w: version %d, this program knows version 1", ErrLayout, doc.Version)
	}
	tensors := make([]Tensor, len(doc.Tensors))
	for i, t := range doc.Tensors {
		d, err := ParseDType(t.DType)
		if err != nil {
			return nil, fmt.Errorf("%w: tensor %d %q: %w", ErrLayout, i, text.Clip(t.Name, 64), err)
		}
		tensors[i] = Tensor{Name: t.Name, DType: d, Shape: t.Shape}
	}
	l, err := NewLayout(tensors)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(l.canonical, b) {
		return nil, fmt.Errorf("%w: not in canonical form", ErrLayout)
	}
	return l, nil
}

// Len returns the number of tensors.
func (l *Layout) Len() int { return len(l.tensors) }

// Tensor returns tensor i. Its shape must not be changed.
func (l *Layout) Tensor(i int) Tensor { return l.tensors[i] }

// Offset returns where tensor i begins in the flat vector, in bytes.
func (l *Layout) Offset(i int) int64 { return l.offsets[i] }

// Offsets returns a copy of all tensors' offsets.
func (l *Layout) Offsets() []int64 { return slices.Clone(l.offsets) }

// Bytes returns the length of the flat vector, padding between tensors included.
func (l *Layout) Bytes() int64 { return l.bytes }

// Canonical returns a copy of the canonical JSON.
func (l *Layout) Canonical() []byte { return slices.Clone(l.canonical) }

// Digest returns the BLAKE3 digest of the canonical JSON.
func (l *Layout) Digest() Digest { return l.digest }

// Leaves returns the number of leaves; 0 when no tensor has an element.
func (l *Layout) Leaves() int { return int((l.bytes + l.leafSize - 1) / l.leafSize) }

// LeafOffset returns where a leaf begins in the flat vector.
func (l *Layout) LeafOffset(leaf int) int64 { return int64(leaf) * l.leafSize }

// LeafAt returns the leaf that begins at the offset, or holds the byte there.
func (l *Layout) LeafAt(offset int64) int { return int(offset / l.leafSize) }

// LeafSize returns the length of every leaf but the last, in bytes: the least power of two between MinLeafSize and MaxLeafSize of
// which 256 leaves hold the model, or else the largest.
func (l *Layout) LeafSize() int { return int(l.leafSize) }

// WithLeafSize returns the layout with leaves of another length, a power of two within the bounds. It is for tests that need few large
// leaves of a small model: peers divide a model by its layout alone.
func (l *Layout) WithLeafSize(size int) *Layout {
	other := *l
	other.leafSize = int64(size)
	return &other
}

// LeafLen returns the bytes of a leaf in range: LeafSize but for the last.
func (l *Layout) LeafLen(leaf int) int {
	return int(min(l.leafSize, l.bytes-l.LeafOffset(leaf)))
}

// TensorAt returns the index of the tensor that holds the byte at the offset,
// or of the last one before it when the byte is padding.
func (l *Layout) TensorAt(offset int64) int {
	i := sort.Search(len(l.offsets), func(i int) bool { return l.offsets[i] > offset })
	return max(0, i-1)
}

// Segment is a run of elements of one type within a leaf; Start and End are
// byte offsets in the leaf. Bytes between segments are padding.
type Segment struct {
	DType      DType
	Start, End int
}

// AppendSegments appends the segments of a leaf to dst, joining neighbouring
// tensors of one type.
func (l *Layout) AppendSegments(dst []Segment, leaf int) []Segment {
	from := l.LeafOffset(leaf)
	to := from + int64(l.LeafLen(leaf))
	base := len(dst)
	for i := l.TensorAt(from); i < len(l.tensors) && l.offsets[i] < to; i++ {
		t := l.tensors[i]
		start := max(from, l.offsets[i])
		end := min(to, l.offsets[i]+t.Elements()*int64(t.DType.Size()))
		if start >= end {
			continue
		}
		s := Segment{DType: t.DType, Start: int(start - from), End: int(end - from)}
		if n := len(dst); n > base && dst[n-1].DType == s.DType && dst[n-1].End == s.Start {
			dst[n-1].End = s.End
			continue
		}
		dst = append(dst, s)
	}
	return dst
}

// appendCanonical writes the one spelling of a layout: keys in this order, no
// spaces, in names only quote and backslash escaped (control characters are
// refused before), everything else as it is.
func appendCanonical(b []byte, tensors []Tensor) []byte {
	b = append(b, `{"version":1,"tensors":[`...)
	for i, t := range tensors {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":"`...)
		for j := range len(t.Name) {
			if c := t.Name[j]; c == '"' || c == '\\' {
				b = append(b, '\\')
			}
			b = append(b, t.Name[j])
		}
		b = append(b, `","dtype":"`...)
		b = append(b, t.DType.String()...)
		b = append(b, `","shape":[`...)
		b = appendInts(b, t.Shape)
		b = append(b, `]}`...)
	}
	return append(b, `]}`...)
}

func appendInts(b []byte, values []int64) []byte {
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, v, 10)
	}
	return b
}
