package exchange

import (
	"io"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
)

// store is where merged leaves go: to the slot, after an optimiser's step if there is one, and those of the own shard also to where
// receivers are given them from. Its errors are those of filling a leaf, or faults.
type store struct {
	plan     *assignment
	codec    *leafio.Codec
	stepper  *leafio.Stepper // nil: the method has no optimiser
	slot     slotFile
	progress *progress
	cache    *leafio.Cache // of the own shard
}

// slotFile is what of a slot merged leaves need.
type slotFile interface {
	io.ReaderAt
	io.WriterAt
}

func newStore(plan *assignment, codec *leafio.Codec, slot slotFile, p *progress) *store {
	return &store{
		plan: plan, codec: codec, slot: slot, progress: p, stepper: leafio.NewStepper(plan.Layout, plan.method, codec, slot),
		cache: leafio.NewCache(2 * leafio.PerBundle(plan.Layout)),
	}
}

// merge has a leaf of the task merged and returns the digest of what its owner stores. Of one that it witnesses this node
// keeps nothing else: it is given the leaf by the owner, as everybody is.
func (s *store) merge(leaf int, spare []byte, merged func(dst []byte) error) (merge.Digest, error) {
	if s.plan.isLocal(leaf) {
		return s.put(leaf, spare, merged)
	}
	b := spare[:s.plan.Layout.LeafLen(leaf)]
	if err := merged(b); err != nil {
		return merge.Digest{}, err
	}
	if err := s.codec.RoundTrip(leaf, b, nil); err != nil {
		return merge.Digest{}, err
	}
	if s.stepper != nil {
		if err := s.stepper.Take(leaf, b, nil); err != nil {
			return merge.Digest{}, err
		}
	}
	return merge.Sum(b), nil
}

// put has a leaf of the own shard merged, stores it, keeps it for the receivers and returns the digest of what it stored; the
// caller tells progress. It merges where the leaf is to stay: in the slot, from which receivers are given it, or in the frame with
// which it goes out. Only where the slot holds other bytes than travel is it merged in spare. Where peers step, the merged leaf
// is what receivers are given, now and in another attempt.
func (s *store) put(leaf int, spare []byte, merged func(dst []byte) error) (merge.Digest, error) {
	if lent, d, err := s.inPlace(leaf, merged); lent {
		return d, err
	}
	if !s.codec.Shortens() && s.stepper == nil {
		f := leafio.NewFrame(s.plan.Layout, s.codec.Header(leaf))
		if err := merged(f.Payload()); err != nil {
			s.cache.Drop(f)
			return merge.Digest{}, err
		}
		s.cache.Add(f) // Its bytes stay: nobody but this goroutine adds the frames that would push it out.
		return s.write(leaf, f.Payload())
	}
	b := spare[:s.plan.Layout.LeafLen(leaf)]
	if err := merged(b); err != nil {
		return merge.Digest{}, err
	}
	if err := s.codec.RoundTrip(leaf, b, s.keepSent); err != nil {
		return merge.Digest{}, err
	}
	if s.stepper != nil {
		if _, err := s.progress.means.WriteAt(b, s.plan.Layout.LeafOffset(leaf)); err != nil {
			return merge.Digest{}, &leafio.Fault{What: "keep merged weights", Cause: err}
		}
	}
	return s.write(leaf, b)
}

// inPlace lets fill write a merged leaf into the slot, and digests it there; false if that can't be. A program that writes to
// the slot meanwhile harms its own node, whose digest is not the others' then.
func (s *store) inPlace(leaf int, fill func(dst []byte) error) (_ bool, d merge.Digest, failed error) {
	if s.stepper != nil {
		return false, d, nil
	}
	lent, err := s.codec.Lend(s.slot, leaf, func(b []byte) {
		if failed = fill(b); failed == nil {
			d = merge.Sum(b)
		}
	})
	if err != nil {
		return true, d, &leafio.Fault{What: "write merged weights", Cause: err}
	}
	return lent, d, failed
}

// write writes a merged leaf to the slot, after the optimiser's step if there is one, and digests what it wrote.
func (s *store) write(leaf int, b []byte) (merge.Digest, error) {
	if s.stepper != nil {
		if err := s.stepper.Take(leaf, b, s.keepState); err != nil {
			return merge.Digest{}, err
		}
	}
	d := merge.Sum(b)
	if _, err := s.slot.WriteAt(b, s.plan.Layout.LeafOffset(leaf)); err != nil {
		return merge.Digest{}, &leafio.Fault{What: "write merged weights", Cause: err}
	}
	return d, nil
}

func (s *store) keepState(leaf int, state []byte) error {
	d, err := s.stepper.Keep(leaf, state)
	if err == nil {
		s.progress.merged.AddState(leaf, d)
	}
	return err
}

// keepSent keeps what travels of a merged leaf for the receivers; before progress tells them of it.
func (s *store) keepSent(leaf int, b []byte) {
	if len(s.plan.Participants) > 1 {
		f := leafio.NewFrame(s.plan.Layout, s.codec.Header(leaf))
		copy(f.Payload(), b)
		s.cache.Add(f)
	}
}

// served is where receivers' leaves are read from.
func (s *store) served() io.ReaderAt {
	if s.stepper != nil {
		return s.progress.means
	}
	return s.slot
}
