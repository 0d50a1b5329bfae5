package trust

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/round"
)

// Offer is what this node brings into a plan.
type Offer struct {
	Self   int    // its index in the plan
	Weight uint32 // that it told
	Most   uint32 // the largest weight that a session of its terms can have; 0: state.MaxWeight
	Leaves int    // of its layout
}

// Plan returns why this node takes no part in the view's plan, nil if it may. Every participant must be of an open session that
// the view shows and one that Peer accepts, weights must be such as sessions can have, and shards
// the split that all can compute; in later attempts each leaf must have one owner.
func (g *Guard) Plan(v *round.View, offer Offer) error {
	err := g.plan(v, offer)
	if err == nil || errors.Is(err, ErrUnknown) || !Doubtful(err) || g.cfg.Doubt == nil {
		return err
	}
	return fmt.Errorf("%w (SN %s says so)", err, g.cfg.Doubt())
}

// Doubtful reports whether an SN need not have shown what Plan refused. None need know yet whom this node's owner accepts, nor can it
// help that a node has not renewed its SVID.
func Doubtful(err error) bool { return !errors.Is(err, ErrNotAllowed) && !errors.Is(err, ErrEnded) }

func (g *Guard) plan(v *round.View, offer Offer) error {
	p := v.Plan
	if p.Run != v.Run {
		return fmt.Errorf("the plan is of run %d, the contract is in run %d", p.Run, v.Run)
	}
	seen := map[string]bool{}
	for i, part := range p.Participants {
		m, err := sessionOf(v, part)
		if err != nil {
			return err
		}
		if seen[part.Node] || seen[part.PeerID+"/"] {
			return fmt.Errorf("the plan names %s twice", part.Node)
		}
		seen[part.Node], seen[part.PeerID+"/"] = true, true
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
	if p.Witnesses != v.Rules.Witnesses || p.Witnesses > state.MaxWitnesses {
		return fmt.Errorf("the plan has %d nodes merge each part of the model, the contract's rule is %d", p.Witnesses, v.Rules.Witnesses)
	}
	if p.Attempt == 1 {
		return checkSplit(v, offer.Leaves)
	}
	return checkShards(p, offer.Leaves)
}

// checkSplit holds the shards of a round's first attempt to those that everybody computes. What later ones come to depends on
// attempts that this node may not have seen.
func checkSplit(v *round.View, leaves int) error {
	parts := v.Plan.Participants
	named, err := pattern.ParseList(v.Rules.Owners)
	if err != nil {
		return fmt.Errorf("the rules say who owns: %w", err)
	}
	owners := make([]state.Owner, len(parts))
	for i, part := range parts {
		m, err := sessionOf(v, part)
		if err != nil {
			return err
		}
		owners[i] = state.Owner{PeerID: part.PeerID, SPIFFEID: part.SPIFFEID, Weight: part.Weight, NoShard: m.NoShard, Named: named.Match(part.SPIFFEID)}
	}
	_, shards, err := state.Allot(uint64(leaves), nil, owners, len(named) > 0) //nolint:gosec // a layout's
	if err != nil {
		return fmt.Errorf("the plan's shards: %w", err)
	}
	for i, part := range parts {
		if !slices.Equal(runsOf(part), shards[i]) {
			return fmt.Errorf("the plan's shards are not the split that all can compute: %s should not own what it does", part.Node)
		}
	}
	return nil
}

// runsOf are the leaves that a participant owns.
func runsOf(part *round.Participant) []state.LeafRun {
	if len(part.Shards) > 0 && part.Shards[0].Leaves == 0 {
		return part.Shards[1:]
	}
	return part.Shards
}

// sessionOf finds the session of a participant, which must say the same of it.
func sessionOf(v *round.View, part *round.Participant) (*round.Session, error) {
	m := v.Session(part.Session)
	switch {
	case m == nil:
		return nil, fmt.Errorf("the plan names %.64s, which has no session", part.Node)
	case m.Run != v.Run && m.Run != 0 || m.State == "ended":
		return nil, fmt.Errorf("%s, whose session has ended: %w", part.Node, ErrUnknown) // there will be another plan
	case m.Node != part.Node || m.PeerID != part.PeerID || m.SPIFFEID != part.SPIFFEID:
		return nil, fmt.Errorf("the plan says of %.64s what its session does not", part.Node)
	}
	return m, nil
}

// checkWeights holds the weights to what can be known of them here: one's own to what one told, unless a rule caps weights, which
// counts them finer.
func checkWeights(v *round.View, offer Offer) error {
	capped := v.Rules.WeightCap > 0
	limit := max(offer.Most, state.MaxWeight)
	if capped {
		limit = max(limit, state.MaxPlannedWeight)
	}
	for i, part := range v.Plan.Participants {
		w := part.Weight
		switch {
		case w > limit:
			return fmt.Errorf("the plan gives %s the weight %d, at most %d can be", part.Node, w, limit)
		case i == offer.Self && !capped && w != offer.Weight && w != 0:
			return fmt.Errorf("the plan gives this node the weight %d, it told %d", w, offer.Weight)
		}
	}
	return nil
}

// checkShards holds that every leaf has one owner.
func checkShards(p *round.Plan, leaves int) error {
	var runs []state.LeafRun
	for _, part := range p.Participants {
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
