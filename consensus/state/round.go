package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// MaxRuns bounds the further runs of leaves in a plan, of all participants together.
const MaxRuns = 4 * MaxMinPeers

// Participant is one session's part in an attempt.
type Participant struct {
	Session     string `json:"session"`
	Node        string `json:"node"`
	Weight      uint32 `json:"weight"`       // 0 contributes nothing
	Seq         uint64 `json:"seq"`          // the program's Sync number that this round answers
	ShardFirst  uint64 `json:"shard_first"`  // first leaf of its shard
	ShardLeaves uint64 `json:"shard_leaves"` // 0: owns nothing
	// FactorBits is a float64 by its bits: its update is multiplied by it, over 0 to 1. 0: the method bounds no updates.
	FactorBits uint64 `json:"factor_bits,omitempty"`
	// NormBits is a float64 by its bits: the norm of its update as it declared it, which the factor comes from and to which
	// the owners' sums of squares are held. 0: the method bounds no updates.
	NormBits uint64 `json:"norm_bits,omitempty"`
	// MoreShards are further runs of leaves that it owns, ascending, behind the first.
	MoreShards []LeafRun `json:"more_shards,omitempty"`
	// SPIFFEID is its own, where witnesses are told apart by it: not of one that nodes share, nor without the rule witnesses. Apply sets it.
	SPIFFEID string `json:"spiffe_id,omitempty"`
}

// LeafRun is a contiguous run of leaves.
type LeafRun = ledger.LeafRun

// Runs returns all runs of leaves that the participant owns.
func (p Participant) Runs() []LeafRun {
	return append([]LeafRun{{First: p.ShardFirst, Leaves: p.ShardLeaves}}, p.MoreShards...)
}

// Equal reports whether nothing differs that a plan proposes.
func (p Participant) Equal(o Participant) bool {
	return p.Session == o.Session && p.Node == o.Node && p.Weight == o.Weight && p.Seq == o.Seq &&
		p.FactorBits == o.FactorBits && p.NormBits == o.NormBits && slices.Equal(p.Runs(), o.Runs())
}

// Plan is the running attempt of the next round. Participants are in summation order.
type Plan struct {
	Run          uint64        `json:"run"`
	Round        uint64        `json:"round"`
	Attempt      uint64        `json:"attempt"`
	Participants []Participant `json:"participants"`
	Method       string        `json:"method"`
	Final        bool          `json:"final,omitempty"`
	PlannedMS    int64         `json:"planned_ms"`
	// LedgerLength and LedgerHash are the ledger's end when this was planned: the participants sign it too.
	LedgerLength uint64 `json:"ledger_length,omitempty"`
	LedgerHash   string `json:"ledger_hash,omitempty"`
	// Epoch counts what ended an attempt of the round so that nothing of it may be resumed.
	Epoch uint64 `json:"epoch,omitempty"`
	// Witnesses is how many merge each part of the model, as the rule has it; 0: its owner alone.
	Witnesses uint32 `json:"witnesses,omitempty"`
}

// Participant returns the part of a session, or nil.
func (p *Plan) Participant(session string) *Participant {
	for i := range p.Participants {
		if p.Participants[i].Session == session {
			return &p.Participants[i]
		}
	}
	return nil
}

// CommittedRound is the last round that all of the swarm agreed on.
type CommittedRound struct {
	Round        uint64   `json:"round"`
	Attempt      uint64   `json:"attempt"`
	Digest       string   `json:"digest"`        // hex BLAKE3 of the model
	Participants []string `json:"participants"`  // node names in plan order
	NextInterval uint32   `json:"next_interval"` // batches until the next Sync
	Final        bool     `json:"final,omitempty"`
	CommittedMS  int64    `json:"committed_ms"`
	PlannedMS    int64    `json:"planned_ms"`
	// StateDigest is the hex BLAKE3 of the optimiser state that belongs to the model; empty if the method has none.
	StateDigest string `json:"state_digest,omitempty"`
}

// PlanRound starts an attempt of the next round. It replaces a running one, which is dead from then on.
type PlanRound struct {
	Contract     string        `json:"contract"`
	Run          uint64        `json:"run"`
	Round        uint64        `json:"round"`   // the last committed one plus 1
	Attempt      uint64        `json:"attempt"` // the last one plus 1
	Participants []Participant `json:"participants"`
	Final        bool          `json:"final,omitempty"`
	Reason       string        `json:"reason,omitempty"` // why an earlier attempt is repeated
	AtMS         int64         `json:"at_ms"`
	Epoch        uint64        `json:"epoch,omitempty"` // of [Plan]
	// Allotted tells that the shards are those of [State.Allot], which holds for the attempts that follow too. False only in logs of
	// versions that knew no allotment.
	Allotted bool `json:"allotted,omitempty"`
}

// Type implements Command.
func (PlanRound) Type() string { return "plan_round" }

func (p PlanRound) apply(s *State) (Result, error) {
	c, err := s.contractRun(p.Contract, p.Run)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run}
	if c.Over {
		return Result{}, contractOver(c.Name)
	}
	if c.Plan != nil && c.Plan.Round == p.Round && c.Plan.Attempt == p.Attempt &&
		c.Plan.Final == p.Final && c.Plan.Epoch == p.Epoch && slices.EqualFunc(c.Plan.Participants, p.Participants, Participant.Equal) {
		return result, nil
	}
	if c.Halt.Pauses() {
		return Result{}, reject(ReasonStalePlan, "", "contract %s is paused", c.Name)
	}
	if p.Round != c.Round()+1 || p.Attempt != c.Attempt+1 {
		return Result{}, reject(ReasonStalePlan, "", "contract %s: round %d attempt %d is due, not round %d attempt %d",
			c.Name, c.Round()+1, c.Attempt+1, p.Round, p.Attempt)
	}
	if c.Terms == nil {
		return Result{}, reject(ReasonTermsOpen, "", "contract %s: the terms are not fixed yet", c.Name)
	}
	if p.Final && !c.FinalDue() {
		return Result{}, reject(ReasonNotFinal, "", "contract %s: fewer than minPeers sessions have closed", c.Name)
	}
	if err := p.checkParticipants(s, c); err != nil {
		return Result{}, err
	}
	if err := p.follow(s, c); err != nil {
		return Result{}, err
	}
	c.Plan = &Plan{
		Run: c.Run, Round: p.Round, Attempt: p.Attempt, Participants: slices.Clone(p.Participants),
		Method: c.Terms.Method, Final: p.Final, PlannedMS: p.AtMS, Epoch: p.Epoch, Witnesses: c.Rules.witnesses(),
	}
	c.Plan.tellApart(s)
	c.Plan.LedgerLength, c.Plan.LedgerHash = s.LedgerHead().Length, s.LedgerHead().Hash
	c.Attempt, c.PendingReason = p.Attempt, Clip(p.Reason, maxShort)
	result.Changed = true
	return result, nil
}

// tellApart notes the SPIFFE IDs by which witnesses are told apart, as a node may register anew with another one.
func (p *Plan) tellApart(s *State) {
	for i, part := range p.Participants {
		p.Participants[i].SPIFFEID = ""
		if n := s.Nodes[part.Node]; n != nil && p.Witnesses > 0 && OwnID(n.SPIFFEID) {
			p.Participants[i].SPIFFEID = n.SPIFFEID
		}
	}
}

// checkParticipants holds that an attempt can be carried out: every participant is there, and every leaf has one owner.
func (p PlanRound) checkParticipants(s *State, c *Contract) error {
	if uint64(len(p.Participants)) < uint64(c.Terms.MinPeers) {
		return reject(ReasonTooFewPeers, "", "contract %s: %d participants, minPeers is %d", c.Name, len(p.Participants), c.Terms.MinPeers)
	}
	seen := make(map[string]bool, len(p.Participants))
	weight := uint64(0)
	for _, part := range p.Participants {
		session := c.Sessions[part.Session]
		switch {
		case session == nil || session.Run != c.Run || session.Node != part.Node || seen[part.Session]:
			return reject(ReasonSessionUnknown, "", "contract %s: no session %q of %q to plan", c.Name, clip(part.Session, 80), clip(part.Node, 80))
		case session.State == SessionEnded:
			return sessionEnded(session)
		case session.State == SessionOpen && session.SkippedSeq > 0 && part.Seq <= session.SkippedSeq:
			return reject(ReasonStalePlan, "", "contract %s: Sync %d of %s was skipped", c.Name, part.Seq, part.Node)
		case !s.live(part.Node):
			return reject(ReasonNodeDead, "", "contract %s: node %s is not alive", c.Name, part.Node)
		case part.Weight > c.heaviest():
			return reject(ReasonBadCommand, "", "weight %d of %s, at most %d", part.Weight, part.Node, c.heaviest())
		case !validFactor(part.FactorBits) || part.NormBits > largestNorm:
			return reject(ReasonBadCommand, "", "bad factor or norm of %s", part.Node)
		}
		seen[part.Session] = true
		weight += uint64(part.Weight)
	}
	if err := c.checkShards(p.Participants); err != nil {
		return reject(ReasonBadShards, "", "contract %s: %v", c.Name, err)
	}
	if size := s.recordBound(c, p.Participants); len(p.Participants) > MaxParticipants || size > ledger.MaxRecord {
		return reject(ReasonTooLarge, "have some of them end their sessions", "contract %s: the record of a round of %d participants would have %d bytes, %d are allowed",
			c.Name, len(p.Participants), size, ledger.MaxRecord)
	}
	if weight == 0 {
		return reject(ReasonZeroWeight, "give at least one peer a nodeWeightage above 0", "contract %s: all participants have weight 0", c.Name)
	}
	return c.CheckPlan(p.Participants)
}

// checkShards holds that every leaf has one owner.
func (c *Contract) checkShards(parts []Participant) error {
	owned, n := make([][]LeafRun, 0, len(parts)), 0
	for _, p := range parts {
		owned = append(owned, p.Runs())
		n += len(p.MoreShards)
	}
	if n > MaxRuns {
		return fmt.Errorf("shards have %d further runs, at most %d", n, MaxRuns)
	}
	leaves, i, err := ledger.Tile(owned)
	switch {
	case err != nil:
		return fmt.Errorf("shard of %s: %w", parts[i].Node, err)
	case leaves != c.Terms.Leaves:
		return fmt.Errorf("shards hold %d of %d leaves", leaves, c.Terms.Leaves)
	}
	return nil
}

// heaviest is the largest weight of a participant: those under a cap are counted finer than those that programs give.
func (c *Contract) heaviest() uint32 {
	if c.Rules != nil && c.Rules.WeightCapPPM > 0 {
		return max(c.Terms.MaxWeight(), MaxPlannedWeight)
	}
	return c.Terms.MaxWeight()
}

// largestNorm are the bits of the largest float64: those of infinity, NaN and what is below 0 are above.
const largestNorm = 0x7fefffffffffffff

// validFactor reports whether bits are 0 or those of a float64 over 0 and up to 1: such numbers are ordered as their bits.
func validFactor(bits uint64) bool {
	const one = 0x3ff0000000000000
	return bits <= one
}

// CancelPlan gives the running attempt up without another one.
type CancelPlan struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
	Round    uint64 `json:"round"`
	Attempt  uint64 `json:"attempt"`
	Reason   string `json:"reason"`
	AtMS     int64  `json:"at_ms"`
}

// Type implements Command.
func (CancelPlan) Type() string { return "cancel_plan" }

func (p CancelPlan) apply(s *State) (Result, error) {
	c, err := s.contractRun(p.Contract, p.Run)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run}
	if c.Plan == nil && c.Round()+1 == p.Round && c.Attempt == p.Attempt {
		return result, nil
	}
	if c.Plan == nil || c.Plan.Round != p.Round || c.Plan.Attempt != p.Attempt {
		return Result{}, reject(ReasonStalePlan, "", "contract %s: round %d attempt %d is not running", c.Name, p.Round, p.Attempt)
	}
	c.Plan, c.PendingReason = nil, Clip(p.Reason, maxShort)
	result.Changed = true
	return result, nil
}

// CommitRound makes the running attempt's model the swarm's.
type CommitRound struct {
	Contract     string `json:"contract"`
	Run          uint64 `json:"run"`
	Round        uint64 `json:"round"`
	Attempt      uint64 `json:"attempt"`
	Digest       string `json:"digest"`        // hex BLAKE3 of the model
	NextInterval uint32 `json:"next_interval"` // batches until the next Sync, at least 1
	AtMS         int64  `json:"at_ms"`
	// StateDigest is the hex BLAKE3 of the optimiser's state; empty if the method has none.
	StateDigest string `json:"state_digest,omitempty"`
	// ShardsDigest is the hex BLAKE3 over the digests of all shards. It and Signatures by node keys over exchange.AttestationMessage, in
	// plan order, go to the ledger. Commands of old logs have the ShardDigests (hex) instead.
	ShardsDigest string   `json:"shards_digest,omitempty"`
	ShardDigests []string `json:"shard_digests,omitempty"`
	Signatures   [][]byte `json:"signatures,omitempty"`
	// KeepCounted has it kept with sessions of the mode once that they count in this round. False in logs of before, and where none does.
	KeepCounted bool `json:"keep_counted,omitempty"`
}

// Type implements Command.
func (CommitRound) Type() string { return "commit_round" }

func (r CommitRound) apply(s *State) (Result, error) {
	if !validHex(r.Digest, 64) || r.NextInterval < 1 || r.NextInterval > maxInterval {
		return Result{}, reject(ReasonBadCommand, "", "bad digest %q or interval %d", clip(r.Digest, 80), r.NextInterval)
	}
	if err := r.checkProof(); err != nil {
		return Result{}, err
	}
	c, err := s.contractRun(r.Contract, r.Run)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run}
	if done := c.Committed; done != nil && done.Round == r.Round && done.Attempt == r.Attempt && done.Digest == r.Digest {
		return result, nil
	}
	plan := c.Plan
	if plan == nil || plan.Round != r.Round || plan.Attempt != r.Attempt {
		return Result{}, reject(ReasonStalePlan, "", "contract %s: round %d attempt %d is not running", c.Name, r.Round, r.Attempt)
	}
	for _, part := range plan.Participants {
		if session := c.Sessions[part.Session]; session != nil && session.EndReason == EndBanned {
			// The ban came while this command was on its way: its word is that nothing of the node is merged any more.
			return Result{}, reject(ReasonBanned, "", "contract %s: node %s of round %d is banned", c.Name, part.Node, r.Round)
		}
	}
	c.commit(plan, r)
	tellPrograms(s, c, plan.sessions())
	c.settle()
	result.Changed = true
	return result, nil
}

func (r CommitRound) records(old, _ *State) (int64, []ledger.Body) {
	c := old.Contracts[r.Contract]
	return r.AtMS, append(programBodies(old, c, c.Plan.sessions()), roundBody(r, old))
}

func (c *Contract) commit(plan *Plan, r CommitRound) {
	names := make([]string, 0, len(plan.Participants))
	for _, part := range plan.Participants {
		names = append(names, part.Node)
		if old := c.Sessions[part.Session]; old != nil {
			n := *old
			n.LastSeq, n.LastRound = part.Seq, plan.Round
			n.counted(part, plan.Round, r.KeepCounted)
			if n.Terms.Weights == WeightsSamples && part.Weight > 0 && (c.Rules == nil || c.Rules.WeightCapPPM == 0) {
				n.Weight = part.Weight // else it is not what the session told
			}
			c.Sessions[n.ID] = &n
		}
	}
	c.Committed = &CommittedRound{
		Round: plan.Round, Attempt: plan.Attempt, Digest: r.Digest, Participants: names, NextInterval: r.NextInterval,
		Final: plan.Final, CommittedMS: r.AtMS, PlannedMS: plan.PlannedMS, StateDigest: r.StateDigest,
	}
	c.RecentCommitMS = recent(c.RecentCommitMS, r.AtMS)
	c.Plan, c.Attempt, c.Due, c.PendingReason = nil, 0, nil, ""
	if c.Over = plan.Final; c.Over {
		c.Halt = c.Halt.whenOver()
	}
}

// median returns the middle value (of an even number the lower one), 0 for none. It sorts its argument.
func median[T cmp.Ordered](values []T) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
