package rpc

import (
	"fmt"
	"math"
	"sync"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/rpc/proven"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// stale reports whether a report is of another attempt than the running one: repeated until its node has heard of the commit,
// or come late. Nobody needs it, and the plan that it signs is gone.
func stale(c *state.Contract, x *swarmv1.SessionReport) bool {
	d := x.GetDone()
	return c.Plan == nil || x.GetRun() != c.Run || d.GetRound() != c.Plan.Round || d.GetAttempt() != c.Plan.Attempt
}

// takeDone verifies that the node signed for the ledger what it says came out of the running attempt, and has its report say so then. It
// notes an owner whose seal on the digest of its shard is missing, if these are reported. That all the rest is the node's own word is the
// caller's matter.
func (s *seals) takeDone(view *state.State, c *state.Contract, node *state.Node, r *reports.Report, d *swarmv1.Done) error {
	done, err := onwire.FromDone(d)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	out := exchange.Outcome{
		Contract: r.Contract, Run: r.Run, Round: done.Round, Number: done.Attempt, Node: node.Name,
	}
	if out.Plan, out.Ledger, err = s.planDigests(view, c); err != nil {
		return err
	}
	if out.ModelDigest, err = parseDigest(done.ModelDigest); err != nil {
		return err
	}
	if out.ShardsDigest, err = parseDigest(done.ShardsDigest); err != nil {
		return err
	}
	shards, err := shardDigests(c, done, out.ShardsDigest)
	if err != nil {
		return err
	}
	if done.StateDigest != "" {
		if out.StateDigest, err = parseDigest(done.StateDigest); err != nil {
			return err
		}
	}
	if len(done.Claims) > 0 && c.Plan.Witnesses == 0 { // nobody would judge them, and what they say stands for a signature
		return fmt.Errorf("%w: node %s reports claims of parts that have no witnesses", ErrBadRequest, node.Name)
	}
	if !round.Disagrees(shards, done.Claims) && !s.Valid(node.PeerID, exchange.AttestationMessage(out), done.Signature) {
		return fmt.Errorf("%w: node %s did not sign its report of %s round %d attempt %d",
			ErrSignature, node.Name, r.Contract, done.Round, done.Attempt)
	}
	if len(shards) > 0 {
		r.Unsealed = s.unsealed(view, c, out, shards, done.Seals)
	}
	done.Seals = nil // the leader goes by what was found here, and keeps reports for long
	r.Done, r.Signed = done, s.inputSigned(view, c, out.Plan)
	return nil
}

// shardDigests are those that a report has: of all shards, or of none. With witnesses the leader needs them of all.
func shardDigests(c *state.Contract, d *round.Done, over merge.Digest) (shards []merge.Digest, _ error) {
	if len(d.ShardDigests) == 0 && c.Plan.Witnesses == 0 {
		return nil, nil
	}
	if len(d.ShardDigests) != len(c.Plan.Participants) {
		return nil, fmt.Errorf("%w: %d shards of %d participants", ErrBadRequest, len(d.ShardDigests), len(c.Plan.Participants))
	}
	for _, text := range d.ShardDigests {
		shard, err := parseDigest(text)
		if err != nil {
			return nil, err
		}
		shards = append(shards, shard)
	}
	if merge.Combine(shards) != over {
		return nil, fmt.Errorf("%w: the digest over all shards is not that of the shards' digests", ErrBadRequest)
	}
	return shards, nil
}

// unsealed names an owner that has not signed the digest that is reported of its shard; none: all have. Whose report it is must be proven.
func (s *seals) unsealed(view *state.State, c *state.Contract, out exchange.Outcome, shards []merge.Digest, given [][]byte) string {
	for i, part := range c.Plan.Participants {
		if part.ShardLeaves == 0 {
			continue
		}
		n := view.Nodes[part.Node]
		if n == nil || i >= len(given) || !s.Valid(n.PeerID, exchange.SealMessage(exchange.Sealed{
			Contract: out.Contract, Run: out.Run, Round: out.Round, Number: out.Number, Plan: out.Plan, Owner: i, Shard: shards[i],
		}), given[i]) {
			return part.Node
		}
	}
	return ""
}

// seals remembers signatures that were found valid, and the last plan that was signed.
type seals struct {
	proven.Signatures

	mu sync.Mutex
	// What planDigests said last, of a state and a contract in it: neither changes once it was made.
	view         *state.State
	of           *state.Contract
	plan, ledger merge.Digest
}

// planDigests is that function, computed once for all who report the same attempt.
func (s *seals) planDigests(view *state.State, c *state.Contract) (plan, ledger merge.Digest, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view == view && s.of == c {
		return s.plan, s.ledger, nil
	}
	if plan, ledger, err = planDigests(view, c); err == nil {
		s.view, s.of, s.plan, s.ledger = view, c, plan, ledger
	}
	return plan, ledger, err
}

// planDigests returns what a participant signs of the contract's plan: its terms, and the ledger's end at that time.
func planDigests(view *state.State, c *state.Contract) (plan, ledger merge.Digest, err error) {
	p := exchange.Planned{Contract: c.Name, Run: c.Plan.Run, Round: c.Plan.Round, Method: c.Plan.Method, Epoch: c.Plan.Epoch, Witnesses: int(c.Plan.Witnesses)}
	if p.Layout, err = parseDigest(c.Terms.LayoutDigest); err != nil {
		return plan, ledger, err
	}
	for _, x := range c.Plan.Participants {
		part := exchange.Participant{Session: x.Session, Weight: x.Weight, Factor: math.Float64frombits(x.FactorBits), Unit: view.Unit(x)}
		for _, r := range x.Runs() {
			part.Own(merge.Shard{First: int(r.First), Leaves: int(r.Leaves)}) //nolint:gosec // the state bounds them
		}
		if n := view.Nodes[x.Node]; n != nil {
			part.Node = n.PeerID
		}
		p.Participants = append(p.Participants, part)
	}
	if c.Plan.LedgerHash != "" {
		ledger, err = parseDigest(c.Plan.LedgerHash)
	}
	return p.Digest(), ledger, err
}
