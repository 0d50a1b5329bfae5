package planner

import (
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/text"
)

// blameSkip notes who caused the skip of a participant that refuses the attempt: itself, unless those who left have.
func (at *attempt) blameSkip(part state.Participant) {
	attempt := at.facts.c.Plan.Attempt
	if leavers := at.spreads(part); len(leavers) > 0 {
		for _, n := range leavers {
			at.out.causesSkip(n, attempt)
		}
		return
	}
	if at.out.causesSkip(part.Node, attempt); len(at.out.doubted([]string{part.Node})) > 0 {
		at.out.exclude(part.Node)
	}
}

// spentAtPeers deals with participants whose own records forbid the attempt: two owners may have what they offer, of attempts
// that this swarm has forgotten, of an earlier round of a closed session's frozen weights, or of plans that only they were
// shown. Only they are skipped, or count 0 if they are closed: who says so falsely gains nothing. It is false if there is none.
func (at *attempt) spentAtPeers() bool {
	p := at.facts.c.Plan
	skipped, frozen := map[string]uint64{}, false
	var who []string
	for _, part := range p.Participants {
		f := at.facts.in.Reports[part.Session].Failed
		s := at.facts.c.Sessions[part.Session]
		if f == nil || f.Code != state.ReasonThirdOwner || f.Round != p.Round || f.Attempt != p.Attempt || s == nil || part.Weight == 0 {
			continue
		}
		who = append(who, part.Node)
		if s.State == state.SessionOpen {
			skipped[part.Session] = part.Seq
			at.blameSkip(part)
			continue
		}
		at.out.freeze(part.Session)
		frozen = true
	}
	why := "two owners may have what " + text.Names(who) + " offered"
	switch {
	case len(skipped) > 0:
		at.answer.skip(skipped, why)
	case frozen:
		at.without(why)
	}
	return len(who) > 0
}
