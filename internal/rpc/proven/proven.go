// Package proven takes what nodes have signed of rounds that an SN does not know, as when the SNs were restored from a backup.
package proven

import (
	"errors"
	"fmt"
	"math"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/consensus/state"
)

// Bounds of the rounds that a report proves.
const (
	maxRounds = 4
	maxParts  = 2 * 2048 // participants of all of them
	maxText   = 512      // bytes of a text
)

// Bounded reports whether the rounds that a report proves are as large as they may be.
func Bounded(all []*swarmv1.RoundProof) bool {
	parts, runs := 0, 0
	for _, p := range all {
		parts += len(p.GetPlan().GetParticipants())
		for _, x := range p.GetPlan().GetParticipants() {
			runs += len(x.GetMoreShards())
		}
		if len(p.GetDone().GetShardsDigest()) > maxText || len(p.GetDone().GetSignature()) > state.MaxSignature {
			return false
		}
	}
	return len(all) <= maxRounds && parts <= maxParts && runs <= maxRounds*state.MaxRuns
}

// Behind tells a node which of its sessions hold newer models than this SN knows of: it is asked to prove them, and to open the sessions
// anew that are not known either. Of a later run than this SN knows they can't be: without Prove that is what they hear.
func Behind(view *state.State, m *swarmv1.ReportRequest, res *swarmv1.ReportResponse) {
	for _, x := range m.GetSessions() {
		c := view.Contracts[x.GetContract()]
		if c != nil && c.Run < x.GetRun() && c.Sessions[x.GetSession()] == nil {
			res.UnknownSessions = append(res.UnknownSessions, x.GetSession())
		}
		if c == nil || c.Run != x.GetRun() || !slices.ContainsFunc(x.GetHeld(), func(h *swarmv1.HeldModel) bool { return h.GetRound() > c.Round() }) {
			continue
		}
		res.Prove = true
		if c.Sessions[x.GetSession()] == nil {
			res.UnknownSessions = append(res.UnknownSessions, x.GetSession())
		}
	}
}

// Rounds returns the rounds behind the contract's last one that a node has signed, as the ledger would have them, with its signature alone.
// It is an error if it has not. Valid verifies a signature by a node key.
func Rounds(c *state.Contract, node *state.Node, x *swarmv1.SessionReport, valid func(peerID string, msg, sig []byte) bool) (out []ledger.Round, _ error) {
	for _, p := range x.GetProofs() {
		if p.GetPlan().GetRun() != c.Run || p.GetPlan().GetRound() <= c.Round() {
			continue
		}
		r, err := roundOf(c.Name, p, node)
		if err != nil {
			return nil, err
		}
		msg, err := audit.SignedMessage(r, node.Name)
		if err != nil {
			return nil, fmt.Errorf("round %d of %s: %w", r.Round, c.Name, err)
		}
		if !valid(node.PeerID, msg, p.GetDone().GetSignature()) {
			return nil, fmt.Errorf("node %s did not sign that round %d of %s was merged", node.Name, r.Round, c.Name)
		}
		out = append(out, r)
	}
	return out, nil
}

// roundOf is a round as the ledger would have it, if only one of its participants had signed.
func roundOf(contract string, p *swarmv1.RoundProof, signer *state.Node) (ledger.Round, error) {
	plan, done := p.GetPlan(), p.GetDone()
	r := ledger.Round{
		Contract: contract, Run: plan.GetRun(), Round: plan.GetRound(), Attempt: plan.GetAttempt(), Method: plan.GetMethod(),
		Layout: p.GetLayoutDigest(), Model: done.GetModelDigest(), State: done.GetStateDigest(), ShardsDigest: done.GetShardsDigest(),
		Witnessed: ledger.Witness{Hash: plan.GetLedgerHead()}, Epoch: plan.GetEpoch(), Witnesses: plan.GetWitnesses(),
	}
	switch {
	case done.GetRound() != r.Round || done.GetAttempt() != r.Attempt:
		return r, fmt.Errorf("the report of round %d attempt %d proves no other one", done.GetRound(), done.GetAttempt())
	case len(r.Method) > maxText || len(r.Layout) > maxText:
		return r, errors.New("its method or layout is too long")
	}
	found := false
	for _, m := range plan.GetParticipants() {
		part := ledger.Participant{
			Node: m.GetNode(), PeerID: m.GetPeerId(), Session: m.GetSession(), Weight: m.GetWeight(), Factor: m.GetFactor(),
			ShardFirst: m.GetShardFirst(), ShardLeaves: m.GetShardLeaves(),
		}
		if !(part.Factor >= 0 && part.Factor <= math.MaxFloat64) { // nor NaN
			return r, fmt.Errorf("round %d has a factor of %g", r.Round, part.Factor)
		}
		for _, run := range m.GetMoreShards() {
			part.MoreShards = append(part.MoreShards, ledger.LeafRun{First: run.GetFirst(), Leaves: run.GetLeaves()})
		}
		if r.Witnesses > 0 && state.OwnID(m.GetSpiffeId()) {
			part.SPIFFEID = m.GetSpiffeId()
		}
		if part.Node == signer.Name && part.PeerID == signer.PeerID && !found {
			part.Signature, found = done.GetSignature(), true
		}
		r.Participants = append(r.Participants, part)
	}
	if !found {
		return r, fmt.Errorf("node %s took no part in round %d of %s", signer.Name, r.Round, contract)
	}
	return r, nil
}
