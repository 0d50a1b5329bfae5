package planner

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
)

// leastContributors is how many participants of weight above 0 a round has, if it can, before what sessions left counts only once: with
// fewer the model would be one peer's own.
const leastContributors = 2

// fit returns the participants with the weights and factors that count in an attempt. What a session left that is to count only once,
// and was in a committed round, counts 0, unless too few would contribute then, or a rule would forbid the round: peers that end one by
// one leave neither one peer's own model nor a training that can't end.
func (l *lineup) fit(parts []state.Participant) []state.Participant {
	rest := l.countedOnce(parts)
	if len(rest) == 0 {
		return l.weigh(parts, nil)
	}
	without := l.weigh(parts, rest)
	if contributors(without) >= leastContributors && l.facts.checkPlan(without) == nil {
		return without
	}
	return l.weigh(l.again(parts, rest), nil)
}

// countedOnce are the sessions among the participants that have counted as often as they are to.
func (l *lineup) countedOnce(parts []state.Participant) map[string]bool {
	var rest map[string]bool
	for _, p := range parts {
		if s := l.facts.c.Sessions[p.Session]; s == nil || !s.CountedOnce() {
			continue
		}
		if rest == nil {
			rest = map[string]bool{}
		}
		rest[p.Session] = true
	}
	return rest
}

// again gives those who rest the weights that they say: in the plan of the attempt before it may be 0.
func (l *lineup) again(parts []state.Participant, rest map[string]bool) []state.Participant {
	parts = slices.Clone(parts)
	for _, p := range l.roster() {
		i := slices.IndexFunc(parts, func(part state.Participant) bool { return part.Session == p.session.ID })
		if i >= 0 && rest[p.session.ID] {
			parts[i].Weight = p.weight
		}
	}
	return parts
}

// contributors counts the participants of a weight above 0.
func contributors(parts []state.Participant) (n int) {
	for _, p := range parts {
		if p.Weight > 0 {
			n++
		}
	}
	return n
}
