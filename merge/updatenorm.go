package merge

import (
	"fmt"
	"io"
	"math"
)

// UpdateNorm is the Euclidean norm of source minus base over all float tensors; a nil base is zero. It is the norm of
// what owners receive, which the method's wire type may have rounded.
func UpdateNorm(m *Method, l *Layout, source, base io.ReaderAt) (float64, error) {
	x, b := make([]byte, MaxLeafSize), make([]byte, MaxLeafSize)
	squares := 0.0
	var code []byte
	codec := m.NewCodec(l)
	if codec != nil {
		code = make([]byte, MaxLeafSize)
	}
	for leaf := range l.Leaves() {
		n, at := l.LeafLen(leaf), l.LeafOffset(leaf)
		if _, err := source.ReadAt(x[:n], at); err != nil {
			return 0, err
		}
		var from []byte
		if base != nil {
			from = b[:n]
			if _, err := base.ReadAt(from, at); err != nil {
				return 0, fmt.Errorf("read the committed model: %w", err)
			}
			if codec != nil {
				if err := codec.RoundTrip(leaf, code[:codec.Len(leaf)], x[:n], from); err != nil {
					return 0, err
				}
			}
		}
		squares += UpdateSquares(l, leaf, x[:n], from)
	}
	return math.Sqrt(squares), nil
}
