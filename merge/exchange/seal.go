package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
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

func (r *run) sealMessage(owner int, shard merge.Digest) []byte {
	return SealMessage(Sealed{
		Contract: r.Contract, Run: r.Run, Round: r.Round, Number: r.Number, Plan: r.plan, Owner: owner, Shard: shard,
	})
}

// sealOwn signs the own shard, all of which is merged.
func (r *run) sealOwn() (wire.Seal, error) {
	d := r.progress.shard(r.Self, r.own())
	sig, err := r.hub.cfg.Sign(r.sealMessage(r.Self, d))
	if err == nil && len(sig) != wire.SealSize {
		err = fmt.Errorf("a signature of %d bytes, want %d", len(sig), wire.SealSize)
	}
	if err != nil {
		return wire.Seal{}, fmt.Errorf("seal what was merged: %w", err)
	}
	return wire.Seal{Shard: d, Sig: sig}, nil
}

// giveSeal sends the own seal when the own shard is merged, and those that this node witnesses: until then it reads from the stream,
// and says that it lives.
func (r *run) giveSeal(c *wire.Conn) error {
	if done, _ := r.progress.finished(r.task()); !done {
		err := c.Flush(true)
		if err == nil {
			err = r.await(c, func() (bool, <-chan struct{}) { return r.progress.finished(r.task()) })
		}
		if err != nil || r.ctx.Err() != nil {
			return err
		}
	}
	s, err := r.seal()
	if err != nil {
		r.fail(r.Self, wire.Brief(err), err)
		return nil
	}
	return c.Write(s.Frame(r.Self), true)
}

// sealAlone adds the own seal to the others', also when there was nobody to give it to.
func (r *run) sealAlone() {
	if merged, _ := r.progress.holds(r.own()); !merged || r.own().Count() == 0 {
		return
	}
	s, err := r.seal()
	if err != nil {
		r.fail(r.Self, wire.Brief(err), err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seals[r.Self] = s.Sig
}

// errSeal ends a stream whose owner vouches for other bytes than it gave.
var errSeal = errors.New("the owner's seal does not fit")

// takeSeal reads the owner's word on what it has given, and holds it to that. Leaves that do not fit are not kept: another attempt
// must not resume with them. Whose word it is nobody asks as a rule; see [Hub.Vouch].
func (v *visitor) takeSeal() error {
	if err := v.expect(wire.SealHeader(v.j)); err != nil {
		return err
	}
	s, err := wire.ReadSeal(v.c)
	if err != nil {
		return err
	}
	if got := v.progress.shard(v.j, v.owned[v.j]); s.Shard != got {
		v.fail(v.j, fmt.Sprintf("sent bytes of digest %.12s and sealed %.12s", got, s.Shard), errSeal)
		v.discard(v.j)
		return errSeal
	}
	if v.witnessed() { // then all is reported at once
		if err := v.checkSeal(v.j, s.Shard, s.Sig); err != nil {
			v.fail(v.j, wire.Brief(err), err)
			v.discard(v.j)
			return errSeal
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seals[v.j] = s.Sig
	return nil
}

// checkSeal verifies an owner's signature.
func (r *run) checkSeal(owner int, shard merge.Digest, sig []byte) error {
	if err := r.hub.cfg.Verify(r.Participants[owner].Node, r.sealMessage(owner, shard), sig); err != nil {
		return fmt.Errorf("its node key has not signed its seal: %w", err)
	}
	return nil
}

// discard drops what came from an owner that did not stand by it.
func (r *run) discard(owner int) {
	if r.method.Distances() {
		// What the owner told of the distances may be false too, and what was merged here counts on it.
		r.progress.spoil()
	} else {
		r.progress.drop(r.owned[owner])
	}
}

// Vouch verifies the seals of an attempt that is complete here: who reports a shard's digest without its owner's signature is taken for
// the liar, so nobody does who has not looked. Where all digests agree nobody asks. It returns *Failure, which blames an owner whose seal is
// none; nothing of that attempt is resumed with what it gave then. It returns an error wrapping ErrSuperseded if the attempt is not the
// contract's newest, or not over.
func (h *Hub) Vouch(contract string, run, round, number uint64) error {
	r := h.newest(contract, run, round, number)
	if r == nil {
		return fmt.Errorf("vouch for attempt %d of round %d: %w", number, round, ErrSuperseded)
	}
	shards := r.progress.result(r.owned).ShardDigests
	for i := range r.Participants {
		if i == r.Self || r.owned[i].Count() == 0 {
			continue
		}
		err := r.checkSeal(i, shards[i], r.seals[i])
		if err == nil {
			continue
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.contracts[contract].run == r {
			r.discard(i)
		}
		return &Failure{Blamed: i, Node: r.Participants[i].Node, HeardFrom: -1, Reason: wire.Brief(err), cause: err}
	}
	return nil
}

// newest returns a contract's newest attempt if it is this one, and over; else nil.
func (h *Hub) newest(contract string, run, round, number uint64) *run {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.contracts[contract]
	if k == nil || !k.run.over() || k.run.Run != run || k.run.Round != round || k.run.Number != number {
		return nil
	}
	return k.run
}
