package rpc

import (
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// boundedClaims holds a report's claims to their bounds.
func boundedClaims(claims []*swarmv1.MergeClaim) bool {
	return len(claims) <= maxShards && !slices.ContainsFunc(claims, func(c *swarmv1.MergeClaim) bool {
		return c.GetOwner() >= maxShards || len(c.GetInputs()) > maxShards || slices.ContainsFunc(c.GetInputs(), func(in *swarmv1.MergeInput) bool {
			return len(in.GetSignature()) > maxSignatureBytes
		})
	})
}

// leadClaims are claims as the leader judges them.
func leadClaims(claims []round.Claim) []planner.Claim {
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

// inputSigned returns what reports whether a contributor of the contract's plan has signed an input.
func (s *seals) inputSigned(view *state.State, c *state.Contract, plan merge.Digest) func(contributor, owner int, in planner.Input) bool {
	parts := c.Plan.Participants
	return func(contributor, owner int, in planner.Input) bool {
		n := view.Nodes[parts[contributor].Node]
		digest, err := parseDigest(in.Digest)
		return n != nil && err == nil && s.Valid(n.PeerID, exchange.InputMessage(plan, contributor, owner, digest), in.Signature)
	}
}
