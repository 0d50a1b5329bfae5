package rpc

import (
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
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

// inputSigned returns what reports whether a contributor of the contract's plan has signed an input.
func (s *seals) inputSigned(view *state.State, c *state.Contract, plan merge.Digest) func(contributor, owner int, in round.Input) bool {
	parts := c.Plan.Participants
	return func(contributor, owner int, in round.Input) bool {
		n := view.Nodes[parts[contributor].Node]
		return n != nil && s.Valid(n.PeerID, exchange.InputMessage(plan, contributor, owner, in.Digest), in.Signature)
	}
}
