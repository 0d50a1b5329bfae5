package session

import (
	"errors"
	"fmt"
	"io"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
)

// verify compares what a slot holds with a committed model: the weights, and the optimiser's state if it has one. It returns the
// digests of the weights' leaves.
func (s *session) verify(slot io.ReaderAt, want round.Model) ([]merge.Digest, error) {
	leaves, err := digests(slot, s.layout.Leaves(), func(i int) (int64, int) { return s.layout.LeafOffset(i), s.layout.LeafLen(i) })
	if err != nil {
		return nil, fmt.Errorf("read the model: %w", err)
	}
	if got := merge.Combine(leaves).String(); got != want.Digest {
		return nil, fmt.Errorf("model has digest %.16s…, committed is %.16s…", got, want.Digest)
	}
	if want.State == "" {
		return leaves, nil
	}
	state, err := digests(slot, s.layout.Leaves(), func(i int) (int64, int) {
		at, n := s.method.StateSpan(s.layout, i)
		return s.layout.Bytes() + at, n
	})
	if err != nil {
		return nil, fmt.Errorf("read the optimiser's state: %w", err)
	}
	if got := merge.Combine(state).String(); got != want.State {
		return nil, fmt.Errorf("optimiser's state has digest %.16s…, committed is %.16s…", got, want.State)
	}
	return leaves, nil
}

// digests returns those of all spans.
func digests(r io.ReaderAt, n int, span func(i int) (at int64, length int)) ([]merge.Digest, error) {
	leaves := make([]merge.Digest, n)
	var buf []byte
	for i := range leaves {
		at, length := span(i)
		if cap(buf) < length {
			buf = make([]byte, length)
		}
		if length > 0 {
			if _, err := r.ReadAt(buf[:length], at); err != nil {
				return nil, err
			}
		}
		leaves[i] = merge.Sum(buf[:length])
	}
	return leaves, nil
}

// base is the committed model as an attempt reads it, leaf by leaf. The program can reach its file, and a change would go into
// what this node merges for all, with the same digests everywhere: so each leaf is held to the committed digest.
type base struct {
	io.ReaderAt // weights, and behind them the optimiser's state, which only the daemon reaches

	layout *merge.Layout
	leaves []merge.Digest
}

// errChanged says that a program has changed the model that it was given.
var errChanged = errors.New("the committed model in its weight file was changed")

// ReadAt implements io.ReaderAt.
func (b *base) ReadAt(p []byte, off int64) (int, error) {
	n, err := b.ReaderAt.ReadAt(p, off)
	if err != nil || off >= b.layout.Bytes() {
		return n, err
	}
	leaf := b.layout.LeafAt(off)
	if off != b.layout.LeafOffset(leaf) || len(p) != b.layout.LeafLen(leaf) {
		return 0, fmt.Errorf("read %d bytes at %d of the committed model: no leaf", len(p), off)
	}
	if leaf >= len(b.leaves) || merge.Sum(p) != b.leaves[leaf] {
		return 0, errChanged
	}
	return n, nil
}

// repair has the committed model fetched again if the program has changed it, after an attempt that failed at this node.
func (s *session) repair(had round.Model) {
	slot := s.slots.Committed()
	_, err := s.verify(slot, had)
	if err == nil {
		return
	}
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	if s.held != had || s.ended() {
		return
	}
	s.engine.cfg.Log.Warn("the committed model in the weight file was changed; fetching it again", "contract", s.contract, "round", had.Round, "err", err)
	s.held, s.leaves = round.Model{}, nil
}
