package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/naming"
)

// maxAhead bounds how far a round that is adopted may be ahead of the one that it proves: numbers must not run out.
const maxAhead = 1 << 20

// AdoptRound goes on from a model of a round that this state does not have: the SNs were restored from a backup, and the SLs have gone on
// since. What proves the model is what would have committed it: the signatures of the round's participants. It takes a number behind all
// that are known of, as what the numbers between have named nobody can tell any more. That round was merged by nobody and has attempt 0.
type AdoptRound struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
	Last     uint64 `json:"last,omitempty"` // the last committed round of this state; 0: none
	Round    uint64 `json:"round"`          // the number that the model gets
	// Proof is the round as its participants signed it, by their node keys over what the ledger's rounds have. Who was not heard has no
	// signature here.
	Proof        ledger.Round `json:"proof"`
	NextInterval uint32       `json:"next_interval"` // batches until the next Sync, at least 1
	AtMS         int64        `json:"at_ms"`
}

// AdoptedRound says that training went on from a model that the state had not known of.
type AdoptedRound struct {
	Round  uint64 `json:"round"`  // the number that the model got
	Last   uint64 `json:"last"`   // the last one known before; 0: none
	Proven uint64 `json:"proven"` // the number under which it was merged
	Digest string `json:"digest"` // hex BLAKE3 of the model
	Signed uint32 `json:"signed"` // so many nodes' signatures prove it
	AtMS   int64  `json:"at_ms"`
}

// String says in one line what happened.
func (a *AdoptedRound) String() string {
	behind := fmt.Sprintf("they know nothing behind round %d", a.Last)
	if a.Last == 0 {
		behind = "they know of no round"
	}
	return fmt.Sprintf("the SNs were restored from a backup, %s: training goes on from the model of round %d, which %d nodes have signed, as round %d",
		behind, a.Proven, a.Signed, a.Round)
}

// Type implements Command.
func (AdoptRound) Type() string { return "adopt_round" }

func (a AdoptRound) apply(s *State) (Result, error) {
	if err := a.check(); err != nil {
		return Result{}, err
	}
	c, err := s.contractRun(a.Contract, a.Run)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run}
	if had := c.Adopted; had != nil && had.Round == a.Round && had.Digest == a.Proof.Model {
		return result, nil
	}
	switch {
	case c.Over:
		return Result{}, contractOver(c.Name)
	case c.Terms == nil:
		return Result{}, reject(ReasonTermsOpen, "", "contract %s: the terms are not fixed yet", c.Name)
	case c.Round() != a.Last:
		return Result{}, reject(ReasonStalePlan, "", "contract %s is at round %d, not %d", c.Name, c.Round(), a.Last)
	}
	if err := c.Proves(s, a.Proof); err != nil {
		return Result{}, reject(ReasonStalePlan, "", "contract %s: round %d: %v", c.Name, a.Proof.Round, err)
	}
	signers := []string{} // who has the model
	for _, p := range a.Proof.Participants {
		if len(p.Signature) > 0 {
			signers = append(signers, p.Node)
		}
	}
	adopted := &AdoptedRound{
		Round: a.Round, Last: a.Last, Proven: a.Proof.Round, Digest: a.Proof.Model, Signed: uint32(len(signers)), AtMS: a.AtMS, //nolint:gosec // MaxParticipants at most
	}
	c.Committed = &CommittedRound{
		Round: a.Round, Digest: a.Proof.Model, StateDigest: a.Proof.State, Participants: signers, NextInterval: a.NextInterval,
		CommittedMS: a.AtMS, PlannedMS: a.AtMS,
	}
	c.Adopted, c.Plan, c.Attempt, c.Due, c.PendingReason = adopted, nil, 0, nil, Clip(adopted.String(), maxShort)
	tellPrograms(s, c, a.sessions())
	c.settle()
	result.Changed = true
	return result, nil
}

func (a AdoptRound) records(old, _ *State) (int64, []ledger.Body) {
	programs := programBodies(old, old.Contracts[a.Contract], a.sessions())
	return a.AtMS, append(programs, ledger.AdoptedRound{Round: a.Round, Last: a.Last, Proof: a.Proof})
}

// sessions are those of the round that is proven.
func (a AdoptRound) sessions() (ids []string) {
	for _, p := range a.Proof.Participants {
		ids = append(ids, p.Session)
	}
	return ids
}

// check holds a command to what can be said of it without a state.
func (a AdoptRound) check() error {
	p := a.Proof
	switch {
	case p.Contract != a.Contract || p.Run != a.Run || p.Round <= a.Last || p.Round >= a.Round || a.Round-p.Round > maxAhead:
		return reject(ReasonBadCommand, "", "round %d of %s, run %d, can't follow round %d as round %d", p.Round, clip(p.Contract, 160), p.Run, a.Last, a.Round)
	case a.NextInterval < 1 || a.NextInterval > maxInterval:
		return reject(ReasonBadCommand, "", "bad interval %d", a.NextInterval)
	}
	if err := checkProven(p); err != nil {
		return reject(ReasonBadCommand, "", "bad proof of round %d: %v", p.Round, err)
	}
	return nil
}

// checkProven bounds what a proof says.
func checkProven(p ledger.Round) error {
	ok := p.Attempt > 0 && validHex(p.Model, 64) && (p.State == "" || validHex(p.State, 64)) && (p.Witnessed.Hash == "" || validHex(p.Witnessed.Hash, 64)) &&
		p.Witnesses <= MaxWitnesses && p.Witnesses != 1 && len(p.Participants) <= MaxParticipants && len(p.Shards) <= MaxParticipants
	ok = ok && (p.ShardsDigest == "" || validHex(p.ShardsDigest, 64) && len(p.Shards) == 0)
	for _, d := range p.Shards {
		ok = ok && validHex(d, 64)
	}
	more := 0
	for _, x := range p.Participants {
		more += len(x.MoreShards)
		ok = ok && naming.ValidNode(x.Node) && len(x.PeerID) <= maxShort && len(x.Session) <= maxShort && len(x.SPIFFEID) <= maxSPIFFEID &&
			len(x.Signature) <= MaxSignature && more <= MaxRuns
	}
	if !ok {
		return errors.New("its digests or participants are out of bounds")
	}
	return nil
}

// Proves returns why the signatures of a round of the contract's run do not prove that its model is the swarm's; nil: they do. Whoever asks
// has verified them. Signed by less than half of those who took part, of the nodes that are alive and have a session, or by fewer than
// minPeers, it proves nothing: so many may lie.
func (c *Contract) Proves(s *State, p ledger.Round) error {
	switch {
	case c.Terms == nil:
		return errors.New("the terms are not fixed yet")
	case p.Method != c.Terms.Method || p.Layout != c.Terms.LayoutDigest:
		return fmt.Errorf("it is of method %s and layout %.12s, the contract's are %s and %.12s", clip(p.Method, 80), p.Layout, c.Terms.Method, c.Terms.LayoutDigest)
	case c.HasModel() && (p.State == "") != (c.Committed.StateDigest == ""):
		return errors.New("it and the last round differ in whether there is an optimiser's state")
	}
	if err := c.checkTiles(p); err != nil {
		return err
	}
	signers := map[string]bool{}
	for _, x := range p.Participants {
		if len(x.Signature) == 0 {
			continue
		}
		n := s.Nodes[x.Node]
		switch {
		case signers[x.Node]:
			return fmt.Errorf("%s signs twice", x.Node)
		case n == nil || n.Role != naming.RoleSL || n.PeerID != x.PeerID || s.Banned(n.PeerID) != nil:
			return fmt.Errorf("%s has signed with a node key that is not its own, or is banned", x.Node)
		case c.SessionOf(x.Node) == nil:
			return fmt.Errorf("%s has signed and has no session", x.Node)
		}
		signers[x.Node] = true
	}
	return c.enough(s, p, signers)
}

// checkTiles holds that a round's shards are the whole model, and that nobody takes part twice.
func (c *Contract) checkTiles(p ledger.Round) error {
	owned, nodes, weight := make([][]LeafRun, 0, len(p.Participants)), map[string]bool{}, uint64(0)
	for _, x := range p.Participants {
		if nodes[x.Node] || nodes[x.PeerID+"/"] {
			return fmt.Errorf("%s takes part twice", x.Node)
		}
		nodes[x.Node], nodes[x.PeerID+"/"] = true, true
		owned = append(owned, x.Runs())
		weight += uint64(x.Weight)
	}
	leaves, _, err := ledger.Tile(owned)
	switch {
	case err != nil:
		return err
	case leaves != c.Terms.Leaves || weight == 0:
		return fmt.Errorf("its participants own %d of %d leaves and have the weight %d", leaves, c.Terms.Leaves, weight)
	}
	return nil
}

// enough tells why signers are too few, nil: they are not.
func (c *Contract) enough(s *State, p ledger.Round, signers map[string]bool) error {
	live := 0
	for _, x := range c.Active() {
		if s.live(x.Node) {
			live++
		}
	}
	switch n := len(signers); {
	case 2*n <= len(p.Participants):
		return fmt.Errorf("%d of its %d participants have signed", n, len(p.Participants))
	case 2*n <= live:
		return fmt.Errorf("%d have signed, and %d nodes with a session are alive", n, live)
	case n < int(c.Terms.MinPeers):
		return fmt.Errorf("%d have signed, minPeers is %d", n, c.Terms.MinPeers)
	}
	if c.Rules == nil {
		return nil
	}
	if i := slices.IndexFunc(c.Rules.Required, func(name string) bool { return !signers[name] }); i >= 0 {
		return fmt.Errorf("%s is required for every round and has not signed", c.Rules.Required[i])
	}
	return nil
}

// adopts reports whether a committed round is the one that was adopted last.
func (c *Contract) adopts(r *CommittedRound) bool {
	a := c.Adopted
	return a != nil && r.Round == a.Round && r.Digest == a.Digest && validHex(r.Digest, 64) && a.Proven > a.Last && a.Round > a.Proven
}
