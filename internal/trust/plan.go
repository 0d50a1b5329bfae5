package trust

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/pattern"
)

// Offer is what this node brings into a plan.
type Offer struct {
	Self   int    // its index in the plan
	Weight uint32 // that it told
	Leaves int    // of its layout
}

// Plan returns why this node takes no part in the view's plan, nil if it may. Every participant must be of an open session that
// the view shows and one that Peer accepts, weights must be such as sessions can have, and shards
// the split that all can compute; in later attempts each leaf must have one owner.
func (g *Guard) Plan(v *swarmv1.ContractView, offer Offer) error {
	err := g.plan(v, offer)
	if err == nil || errors.Is(err, ErrUnknown) || !Doubtful(err) || g.cfg.Doubt == nil {
		return err
	}
	return fmt.Errorf("%w (SN %s says so)", err, g.cfg.Doubt())
}

// Doubtful tells whether an SN need not have shown what Plan refused. None need know yet whom this node's owner accepts, nor can it
// help that a node has not renewed its SVID.
func Doubtful(err error) bool { return !errors.Is(err, ErrNotAllowed) && !errors.Is(err, ErrEnded) }

func (g *Guard) plan(v *swarmv1.ContractView, offer Offer) error {
	p := v.GetPlan()
	if p.GetRun() != v.GetRun() {
		return fmt.Errorf("the plan is of run %d, the contract is in run %d", p.GetRun(), v.GetRun())
	}
	seen := map[string]bool{}
	for i, part := range p.GetParticipants() {
		m, err := sessionOf(v, part)
		if err != nil {
			return err
		}
		if seen[part.GetNode()] || seen[part.GetPeerId()+"/"] {
			return fmt.Errorf("the plan names %s twice", part.GetNode())
		}
		seen[part.GetNode()], seen[part.GetPeerId()+"/"] = true, true
		if i == offer.Self {
			continue
		}
		if err := g.Peer(m); err != nil {
			return err
		}
	}
	if err := checkWeights(v, offer); err != nil {
		return err
	}
	if p.GetWitnesses() != v.GetRules().GetWitnesses() || p.GetWitnesses() > state.MaxWitnesses {
		return fmt.Errorf("the plan has %d nodes merge each part of the model, the contract's rule is %d", p.GetWitnesses(), v.GetRules().GetWitnesses())
	}
	if p.GetAttempt() == 1 {
		return checkSplit(v, offer.Leaves)
	}
	return checkShards(p, offer.Leaves)
}

// checkSplit holds the shards of a round's first attempt to those that everybody computes. What later ones come to depends on
// attempts that this node may not have seen.
func checkSplit(v *swarmv1.ContractView, leaves int) error {
	parts := v.GetPlan().GetParticipants()
	named, err := pattern.ParseList(v.GetRules().GetOwners())
	if err != nil {
		return fmt.Errorf("the rules say who owns: %w", err)
	}
	owners := make([]state.Owner, len(parts))
	for i, part := range parts {
		m, err := sessionOf(v, part)
		if err != nil {
			return err
		}
		owners[i] = state.Owner{PeerID: part.GetPeerId(), SPIFFEID: part.GetSpiffeId(), Weight: part.GetWeight(), NoShard: m.GetNoShard(), Named: named.Match(part.GetSpiffeId())}
	}
	_, shards, err := state.Allot(uint64(leaves), nil, owners, len(named) > 0) //nolint:gosec // a layout's
	if err != nil {
		return fmt.Errorf("the plan's shards: %w", err)
	}
	for i, part := range parts {
		if !slices.Equal(runsOf(part), shards[i]) {
			return fmt.Errorf("the plan's shards are not the split that all can compute: %s should not own what it does", part.GetNode())
		}
	}
	return nil
}

// runsOf are the leaves that a participant owns.
func runsOf(part *swarmv1.Participant) (runs []state.LeafRun) {
	if part.GetShardLeaves() > 0 {
		runs = append(runs, state.LeafRun{First: part.GetShardFirst(), Leaves: part.GetShardLeaves()})
	}
	for _, r := range part.GetMoreShards() {
		runs = append(runs, state.LeafRun{First: r.GetFirst(), Leaves: r.GetLeaves()})
	}
	return runs
}

// sessionOf finds the session of a participant, which must say the same of it.
func sessionOf(v *swarmv1.ContractView, part *swarmv1.Participant) (*swarmv1.Session, error) {
	i := slices.IndexFunc(v.GetSessions(), func(m *swarmv1.Session) bool { return m.GetId() == part.GetSession() })
	if i < 0 {
		return nil, fmt.Errorf("the plan names %.64s, which has no session", part.GetNode())
	}
	m := v.GetSessions()[i]
	switch {
	case m.GetRun() != v.GetRun() && m.GetRun() != 0 || m.GetState() == "ended":
		return nil, fmt.Errorf("%s, whose session has ended: %w", part.GetNode(), ErrUnknown) // there will be another plan
	case m.GetNode() != part.GetNode() || m.GetPeerId() != part.GetPeerId() || m.GetSpiffeId() != part.GetSpiffeId():
		return nil, fmt.Errorf("the plan says of %.64s what its session does not", part.GetNode())
	}
	return m, nil
}

// checkWeights holds the weights to what can be known of them here: one's own to what one told, unless a rule caps weights, which
// counts them finer.
func checkWeights(v *swarmv1.ContractView, offer Offer) error {
	capped := v.GetRules().GetWeightCap() > 0
	limit := uint32(state.MaxWeight)
	if capped {
		limit = state.MaxPlannedWeight
	}
	for i, part := range v.GetPlan().GetParticipants() {
		w := part.GetWeight()
		switch {
		case w > limit:
			return fmt.Errorf("the plan gives %s the weight %d, at most %d can be", part.GetNode(), w, limit)
		case i == offer.Self && !capped && w != offer.Weight && w != 0:
			return fmt.Errorf("the plan gives this node the weight %d, it told %d", w, offer.Weight)
		}
	}
	return nil
}

// checkShards holds that every leaf has one owner.
func checkShards(p *swarmv1.Plan, leaves int) error {
	var runs []state.LeafRun
	for _, part := range p.GetParticipants() {
		runs = append(runs, runsOf(part)...)
	}
	slices.SortFunc(runs, func(a, b state.LeafRun) int { return cmp.Compare(a.First, b.First) })
	next, all := uint64(0), uint64(leaves) //nolint:gosec // a layout's
	for _, r := range runs {
		if r.First != next || r.Leaves == 0 || r.Leaves > all-next {
			return errors.New("the plan's shards are not each leaf once")
		}
		next += r.Leaves
	}
	if next != all {
		return errors.New("the plan's shards leave leaves out")
	}
	return nil
}
