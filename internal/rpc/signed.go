package rpc

import (
	"fmt"
	"math"
	"sync"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
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

// checkDone verifies that the node signed for the ledger what it says came out of the running attempt. It notes an owner whose seal on the
// digest of its shard is missing, if the report has these, and what is claimed of shards with witnesses. That all the rest is the
// node's own word is the caller's matter.
func (s *seals) checkDone(view *state.State, c *state.Contract, node *state.Node, x *swarmv1.SessionReport, done *planner.Done) (err error) {
	d := x.GetDone()
	out := exchange.Outcome{
		Contract: x.GetContract(), Run: x.GetRun(), Round: d.GetRound(), Number: d.GetAttempt(), Node: node.Name,
	}
	if out.Plan, out.Ledger, err = s.planDigests(view, c); err != nil {
		return err
	}
	if out.ModelDigest, err = parseDigest(d.GetModelDigest()); err != nil {
		return err
	}
	if out.ShardsDigest, err = parseDigest(d.GetShardsDigest()); err != nil {
		return err
	}
	shards, err := shardDigests(c, d, out.ShardsDigest)
	if err != nil {
		return err
	}
	if d.GetStateDigest() != "" {
		if out.StateDigest, err = parseDigest(d.GetStateDigest()); err != nil {
			return err
		}
	}
	claims, err := onwire.Claims(d.GetClaims())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	if len(claims) > 0 && c.Plan.Witnesses == 0 { // nobody would judge them, and what they say stands for a signature
		return fmt.Errorf("%w: node %s reports claims of parts that have no witnesses", ErrBadRequest, node.Name)
	}
	if !round.Disagrees(shards, claims) && !s.Valid(node.PeerID, exchange.AttestationMessage(out), d.GetSignature()) {
		return fmt.Errorf("%w: node %s did not sign its report of %s round %d attempt %d",
			ErrSignature, node.Name, x.GetContract(), d.GetRound(), d.GetAttempt())
	}
	if len(shards) > 0 {
		done.Unsealed = s.unsealed(view, c, out, shards, d.GetSeals())
	}
	done.Claims, done.Signed = leadClaims(claims), s.inputSigned(view, c, out.Plan)
	return nil
}

// shardDigests are those that a report has: of all shards, or of none. With witnesses the leader needs them of all.
func shardDigests(c *state.Contract, d *swarmv1.Done, over merge.Digest) (shards []merge.Digest, _ error) {
	if len(d.GetShardDigests()) == 0 && c.Plan.Witnesses == 0 {
		return nil, nil
	}
	if len(d.GetShardDigests()) != len(c.Plan.Participants) {
		return nil, fmt.Errorf("%w: %d shards of %d participants", ErrBadRequest, len(d.GetShardDigests()), len(c.Plan.Participants))
	}
	for _, text := range d.GetShardDigests() {
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
