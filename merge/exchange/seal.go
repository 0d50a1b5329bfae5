package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/swarmd/swarmd/merge"
)

// Sealed identifies what an owner vouches for: the shard that it has merged in one attempt.
type Sealed struct {
	Contract           string
	Run, Round, Number uint64
	Plan               merge.Digest // of Planned
	Owner              int          // index in the plan
	Shard              merge.Digest // over the digests of the shard's leaves
}

// SealMessage returns the canonical bytes that an owner's node key signs. The signature is its seal: who holds two of one
// attempt with different digests can prove that the owner has told two things.
func SealMessage(s Sealed) []byte {
	b := []byte("swarmd merge seal 1\x00")
	b = appendText(b, s.Contract)
	b = binary.LittleEndian.AppendUint64(b, s.Run)
	b = binary.LittleEndian.AppendUint64(b, s.Round)
	b = binary.LittleEndian.AppendUint64(b, s.Number)
	b = append(b, s.Plan[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.Owner)) //nolint:gosec // an index of at most MaxParticipants
	return append(b, s.Shard[:]...)
}

// SealSize is the length of a seal: of an Ed25519 signature.
const SealSize = 64

// sealFrame is the frame's payload.
type sealFrame struct {
	shard merge.Digest
	sig   []byte
}

const sealLength = 32 + SealSize

func sealHeader(owner int) header {
	return header{kindSeal, uint32(owner), sealLength} //nolint:gosec // an index of at most MaxParticipants
}

func (s sealFrame) frame(owner int) []byte {
	b := append(sealHeader(owner).append(nil), s.shard[:]...)
	return append(b, s.sig...)
}

// readSeal reads the payload of a frame whose header was that of a seal.
func readSeal(from io.Reader) (s sealFrame, err error) {
	b := make([]byte, sealLength)
	if _, err := io.ReadFull(from, b); err != nil {
		return sealFrame{}, err
	}
	copy(s.shard[:], b)
	s.sig = b[len(s.shard):]
	return s, nil
}

func (r *run) sealMessage(owner int, shard merge.Digest) []byte {
	return SealMessage(Sealed{
		Contract: r.Contract, Run: r.Run, Round: r.Round, Number: r.Number, Plan: r.plan, Owner: owner, Shard: shard,
	})
}

// sealOwn signs the own shard, all of which is merged.
func (r *run) sealOwn() (sealFrame, error) {
	d := r.progress.shard(r.Self, r.own())
	sig, err := r.hub.cfg.Sign(r.sealMessage(r.Self, d))
	if err == nil && len(sig) != SealSize {
		err = fmt.Errorf("a signature of %d bytes, want %d", len(sig), SealSize)
	}
	if err != nil {
		return sealFrame{}, fmt.Errorf("seal what was merged: %w", err)
	}
	return sealFrame{d, sig}, nil
}

// giveSeal sends the own seal when the own shard is merged, and those that this node witnesses: until then it reads from the stream,
// and says that it lives.
func (r *run) giveSeal(c *conn) error {
	err := r.await(c, func() (bool, <-chan struct{}) { return r.progress.finished(r.task()) })
	if err != nil || r.ctx.Err() != nil {
		return err
	}
	s, err := r.seal()
	if err != nil {
		r.fail(r.Self, plain(err), err)
		return nil
	}
	return c.write(s.frame(r.Self), true)
}

// sealAlone adds the own seal to the others', also when there was nobody to give it to.
func (r *run) sealAlone() {
	if merged, _ := r.progress.holds(r.own()); !merged || r.own().count() == 0 {
		return
	}
	s, err := r.seal()
	if err != nil {
		r.fail(r.Self, plain(err), err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seals[r.Self] = s.sig
}

// errSeal ends a stream whose owner vouches for other bytes than it gave.
var errSeal = errors.New("the owner's seal does not fit")

// takeSeal reads the owner's word on what it has given, and holds it to that. Leaves that do not fit are not kept: another attempt
// must not resume with them.
func (v *visitor) takeSeal() error {
	if err := v.expect(sealHeader(v.j)); err != nil {
		return err
	}
	s, err := readSeal(v.c)
	if err != nil {
		return err
	}
	got := v.progress.shard(v.j, v.owned[v.j])
	switch err := v.hub.cfg.Verify(v.Participants[v.j].Node, v.sealMessage(v.j, s.shard), s.sig); {
	case err != nil:
		v.fail(v.j, "its node key has not signed its seal: "+plain(err), err)
	case s.shard != got:
		v.fail(v.j, fmt.Sprintf("sent bytes of digest %.12s and sealed %.12s", got, s.shard), errSeal)
	default:
		v.mu.Lock()
		defer v.mu.Unlock()
		v.seals[v.j] = s.sig
		return nil
	}
	if v.method.Distances() {
		// What the owner told of the distances may be false too, and what was merged here counts on it.
		v.progress.spoil()
	} else {
		v.progress.drop(v.owned[v.j])
	}
	return errSeal
}
