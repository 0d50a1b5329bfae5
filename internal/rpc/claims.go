package rpc

import (
	"fmt"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// ClaimsToProto are claims as a report carries them.
func ClaimsToProto(claims []exchange.Claim) []*swarmv1.MergeClaim {
	var out []*swarmv1.MergeClaim
	for _, c := range claims {
		m := &swarmv1.MergeClaim{Owner: uint32(c.Owner), Merged: c.Merged[:]} //nolint:gosec // an index of the plan
		if !c.Sums.IsZero() {
			m.Sums = c.Sums[:]
		}
		for _, in := range c.Inputs {
			m.Inputs = append(m.Inputs, &swarmv1.MergeInput{Digest: in.Digest[:], Signature: in.Signature})
		}
		out = append(out, m)
	}
	return out
}

// ClaimsFromProto reads the claims of a report. What they claim is the leader's to judge.
func ClaimsFromProto(claims []*swarmv1.MergeClaim) ([]exchange.Claim, error) {
	var out []exchange.Claim
	digest := func(into *merge.Digest, b []byte) error {
		if len(b) != len(into) {
			return fmt.Errorf("%w: a digest of %d bytes in a claim", ErrBadRequest, len(b))
		}
		copy(into[:], b)
		return nil
	}
	for _, m := range claims {
		c := exchange.Claim{Owner: int(m.GetOwner())}
		if err := digest(&c.Merged, m.GetMerged()); err != nil {
			return nil, err
		}
		if len(m.GetSums()) > 0 {
			if err := digest(&c.Sums, m.GetSums()); err != nil {
				return nil, err
			}
		}
		c.Inputs = make([]exchange.Input, len(m.GetInputs()))
		for i, in := range m.GetInputs() {
			if err := digest(&c.Inputs[i].Digest, in.GetDigest()); err != nil {
				return nil, err
			}
			c.Inputs[i].Signature = in.GetSignature()
		}
		out = append(out, c)
	}
	return out, nil
}

// Disagrees tells whether a node says that it has merged a shard otherwise than its owner gave it. It does not sign such an outcome for
// the ledger, so that nobody can prove a round by it.
func Disagrees(shards []merge.Digest, claims []exchange.Claim) bool {
	return slices.ContainsFunc(claims, func(c exchange.Claim) bool {
		return c.Owner < len(shards) && c.Shard() != shards[c.Owner]
	})
}

// boundedClaims holds a report's claims to their bounds.
func boundedClaims(claims []*swarmv1.MergeClaim) bool {
	return len(claims) <= maxShards && !slices.ContainsFunc(claims, func(c *swarmv1.MergeClaim) bool {
		return c.GetOwner() >= maxShards || len(c.GetInputs()) > maxShards || slices.ContainsFunc(c.GetInputs(), func(in *swarmv1.MergeInput) bool {
			return len(in.GetSignature()) > maxSignatureBytes
		})
	})
}

// leadClaims are claims as the leader judges them.
func leadClaims(claims []exchange.Claim) []planner.Claim {
	var out []planner.Claim
	for _, c := range claims {
		l := planner.Claim{Owner: c.Owner, Digest: c.Shard().String()}
		for _, in := range c.Inputs {
			l.Inputs = append(l.Inputs, planner.Input{Digest: in.Digest.String(), Signature: in.Signature})
		}
		out = append(out, l)
	}
	return out
}

// inputSigned returns what tells whether a contributor of the contract's plan has signed an input.
func (s *seals) inputSigned(view *state.State, c *state.Contract, plan merge.Digest) func(contributor, owner int, in planner.Input) bool {
	parts := c.Plan.Participants
	return func(contributor, owner int, in planner.Input) bool {
		n := view.Nodes[parts[contributor].Node]
		digest, err := parseDigest(in.Digest)
		return n != nil && err == nil && s.Valid(n.PeerID, exchange.InputMessage(plan, contributor, owner, digest), in.Signature)
	}
}
