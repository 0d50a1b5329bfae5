package exchange

import (
	"errors"
	"fmt"
	"sync"

	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// errSeal ends a stream whose owner has sealed other bytes than it sent.
var errSeal = errors.New("the owner's seal does not fit")

// sealing holds what owners give in an attempt to their seals, and keeps these.
type sealing struct {
	plan      *assignment
	signer    signer
	progress  *progress
	sealLocal func() (wire.Seal, error) // that of the own shard, once it is merged

	mu    sync.Mutex // guards what is below
	seals [][]byte   // by participant; nil: it owns nothing, or has not said its own yet
}

func newSealing(plan *assignment, s signer, p *progress) *sealing {
	return &sealing{
		plan: plan, signer: s, progress: p, seals: make([][]byte, len(plan.Participants)),
		sealLocal: sync.OnceValues(func() (wire.Seal, error) { return s.seal(p.shard(plan.Self, plan.localRuns())) }),
	}
}

// keep keeps an owner's seal.
func (s *sealing) keep(owner int, sig []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seals[owner] = sig
}

// has reports whether an owner has sealed its shard.
func (s *sealing) has(owner int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seals[owner] != nil
}

// all returns the seals by participant. The attempt is over.
func (s *sealing) all() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seals
}

// take holds an owner's seal to what it has given. Leaves that do not fit are not kept: another attempt must not resume with them.
// Whose word it is nobody asks as a rule, see [Hub.VerifySeals]; with witnesses all is reported at once, and so this is asked.
func (s *sealing) take(owner int, seal wire.Seal) error {
	if got := s.progress.shard(owner, s.plan.owned[owner]); seal.Shard != got {
		s.discard(owner)
		return &badSeal{fmt.Sprintf("sent bytes of digest %.12s and sealed %.12s", got, seal.Shard), errSeal}
	}
	if s.plan.witnessed() {
		if err := s.signer.checkSeal(owner, seal); err != nil {
			s.discard(owner)
			return &badSeal{wire.Brief(err), err}
		}
	}
	s.keep(owner, seal.Sig)
	return nil
}

// badSeal is why a seal is not taken.
type badSeal struct {
	reason string
	cause  error
}

func (b *badSeal) Error() string { return b.reason }

// verify looks at the signature of an owner's seal of an attempt that is complete.
func (s *sealing) verify(owner int) error {
	return s.signer.checkSeal(owner, wire.Seal{Shard: s.progress.shard(owner, s.plan.owned[owner]), Sig: s.all()[owner]})
}

// addLocal adds the own seal to the others', also when there was nobody to give it to.
func (s *sealing) addLocal() error {
	if merged, _ := s.progress.merged.HasShard(s.plan.localRuns()); !merged || s.plan.localRuns().Count() == 0 {
		return nil
	}
	seal, err := s.sealLocal()
	if err == nil {
		s.keep(s.plan.Self, seal.Sig)
	}
	return err
}

// discard drops what came from an owner that did not stand by it.
func (s *sealing) discard(owner int) {
	if s.plan.method.Distances() {
		// What the owner told of the distances may be false too, and what was merged here counts on it.
		s.progress.invalidate()
	} else {
		s.progress.merged.Drop(s.plan.owned[owner])
	}
}
