package exchange

import (
	"fmt"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/inventory"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// signer signs what this node says in an attempt, and holds what others say to their keys.
type signer struct {
	plan *assignment
	cfg  *Config
}

func (s signer) sign(doing string, msg []byte) ([]byte, error) {
	sig, err := s.cfg.Sign(msg)
	if err == nil && len(sig) != wire.SealSize {
		err = fmt.Errorf("a signature of %d bytes, want %d", len(sig), wire.SealSize)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return sig, nil
}

// norm says the own norm over the shard of owner j.
func (s signer) norm(j int, squares float64) (wire.Norm, error) {
	n := wire.Norm{Squares: wire.Bounded(squares)}
	sig, err := s.sign("sign the norm of the own update", NormMessage(Normed{s.plan.digest, s.plan.Self, j, n.Squares}))
	copy(n.Sig[:], sig)
	return n, err
}

// checkNorm holds a norm over the shard of owner j to the key of its contributor i.
func (s signer) checkNorm(n wire.Norm, i, j int) error {
	return s.cfg.Verify(s.plan.node(i), NormMessage(Normed{s.plan.digest, i, j, n.Squares}), n.Sig[:])
}

func (s signer) sealMessage(owner int, shard merge.Digest) []byte {
	p := s.plan
	return SealMessage(Sealed{Contract: p.Contract, Run: p.Run, Round: p.Round, Number: p.Number, Plan: p.digest, Owner: owner, Shard: shard})
}

// seal seals the own shard.
func (s signer) seal(shard merge.Digest) (wire.Seal, error) {
	sig, err := s.sign("seal what was merged", s.sealMessage(s.plan.Self, shard))
	return wire.Seal{Shard: shard, Sig: sig}, err
}

// checkSeal holds a seal to the key of its owner.
func (s signer) checkSeal(owner int, seal wire.Seal) error {
	if err := s.cfg.Verify(s.plan.node(owner), s.sealMessage(owner, seal.Shard), seal.Sig); err != nil {
		return fmt.Errorf("its node key has not signed its seal: %w", err)
	}
	return nil
}

// input says the digest over the own leaves in an owner's shard, the same in all attempts.
func (s signer) input(r *inventory.Record, owner int) (round.Input, error) {
	return r.Word(owner, func(digest merge.Digest) (round.Input, error) {
		sig, err := s.sign("sign the own contribution", InputMessage(s.plan.digest, s.plan.Self, owner, digest))
		return round.Input{Digest: digest, Signature: sig}, err
	})
}

// checkInput holds what contributor i says of its leaves in an owner's shard to its key.
func (s signer) checkInput(in round.Input, i, owner int) error {
	if err := s.cfg.Verify(s.plan.node(i), InputMessage(s.plan.digest, i, owner, in.Digest), in.Signature); err != nil {
		return fmt.Errorf("its node key has not signed what it sent: %w", err)
	}
	return nil
}

// checkShare holds an owner's share of the distances to the norms in it, and these to their contributors' keys.
func (s signer) checkShare(j int, sh wire.Share) error {
	who := s.plan.contributors
	for k, i := range who {
		if err := s.checkNorm(sh.Norms[k], i, j); err != nil {
			return fmt.Errorf("the norm of %s in its distances: %w", s.plan.node(i), err)
		}
	}
	return inventory.CheckTriangles(sh, s.plan.owned[j].Bytes(s.plan.Layout), func(k int) string { return s.plan.node(who[k]) })
}
