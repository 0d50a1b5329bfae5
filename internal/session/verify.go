package session

import (
	"fmt"
	"io"

	"github.com/swarmd/swarmd/merge"
)

// verify compares what a slot holds with a committed model: the weights, and the optimiser's state if it has one.
func (s *session) verify(slot io.ReaderAt, want model) error {
	got, err := combined(slot, s.layout.Leaves(), func(i int) (int64, int) { return s.layout.LeafOffset(i), s.layout.LeafLen(i) })
	if err != nil {
		return fmt.Errorf("read the model: %w", err)
	}
	if got != want.digest {
		return fmt.Errorf("model has digest %.16s…, committed is %.16s…", got, want.digest)
	}
	if want.state == "" {
		return nil
	}
	got, err = combined(slot, s.layout.Leaves(), func(i int) (int64, int) {
		at, n := s.method.StateSpan(s.layout, i)
		return s.layout.Bytes() + at, n
	})
	if err != nil {
		return fmt.Errorf("read the optimiser's state: %w", err)
	}
	if got != want.state {
		return fmt.Errorf("optimiser's state has digest %.16s…, committed is %.16s…", got, want.state)
	}
	return nil
}

// combined is the digest over the digests of all spans, in hex.
func combined(r io.ReaderAt, n int, span func(i int) (at int64, length int)) (string, error) {
	leaves := make([]merge.Digest, n)
	var buf []byte
	for i := range leaves {
		at, length := span(i)
		if cap(buf) < length {
			buf = make([]byte, length)
		}
		if length > 0 {
			if _, err := r.ReadAt(buf[:length], at); err != nil {
				return "", err
			}
		}
		leaves[i] = merge.Sum(buf[:length])
	}
	return merge.Combine(leaves).String(), nil
}
