package planner

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
)

// blame decides who is left out after a failed attempt, and who comes back.
type blame struct {
	facts  *facts
	lineup *lineup
	tries  *attempts
	out    *exclusions
}

// judge decides who takes part in the next attempt and when it begins.
func (bl *blame) judge(v verdict) {
	p, failures, named := bl.facts.c.Plan, v.failures, v.named
	bl.tries.evaluated, bl.tries.reason = p.Attempt, describe(failures)
	if bl.tries.failSince.IsZero() {
		bl.tries.failSince = bl.facts.in.Now
	}
	pause := bl.facts.cfg.BackoffMax
	if bl.tries.failures < 16 {
		pause = min(pause, bl.facts.cfg.BackoffMin<<bl.tries.failures)
	}
	if bl.facts.dialFailed() {
		pause = max(pause, heardWithin)
	}
	bl.tries.failures++
	bl.tries.notBefore = bl.facts.in.Now.Add(pause)
	for _, f := range failures {
		if f.blamed != "" && f.blamed != f.node {
			bl.out.breaks(f.node, f.blamed)
		}
	}

	var out []string
	if bl.out.namedIn+1 == p.Attempt {
		for _, node := range named {
			if slices.Contains(bl.out.named, node) {
				out = append(out, node)
			}
		}
	}
	bl.out.named, bl.out.namedIn = named, p.Attempt
	if bl.tries.disagreed == p.Attempt {
		for _, f := range failures {
			bl.out.unsettled(f.node)
			if f.blamed != "" {
				bl.out.unsettled(f.blamed)
			}
		}
		if doubted := bl.out.doubted(nodesOf(p.Participants)); len(out) == 0 && bl.enoughWithout(doubted) {
			out = doubted
		}
	}
	if len(out) == 0 && bl.tries.notBefore.Sub(bl.tries.failSince) >= bl.facts.cfg.StallGrace { // when the next attempt begins
		if bl.pairDisagrees(named) {
			bl.out.breaks(p.Participants[0].Node, p.Participants[1].Node)
			bl.readmit(failures)
			return
		}
		out = bl.unconnected(failures)
	}
	switch {
	case len(out) == 0:
	case bl.enoughWithout(out):
		for _, node := range out {
			bl.out.exclude(node)
		}
	default:
		bl.readmit(failures)
	}
	bl.prove(failures, named)
}

// pairDisagrees reports whether two alone reported what does not fit together, so that none of them can be named: their places in
// the plan say nothing of who is wrong, so neither is left out for the other's sake.
func (bl *blame) pairDisagrees(named []string) bool {
	return bl.tries.disagreed == bl.facts.c.Plan.Attempt && len(bl.facts.c.Plan.Participants) == 2 && len(named) == 0
}

// prove notes who of those named is left out by its own word or signature. That two name a third proves nothing, as two liars can;
// and their links to it have broken.
func (bl *blame) prove(failures []failure, named []string) {
	for _, f := range failures {
		out := f.proof && slices.Contains(named, f.node) && slices.Contains(bl.out.excluded, f.node)
		if out && !slices.Contains(bl.out.proven, f.node) {
			bl.out.proven = append(bl.out.proven, f.node)
		}
	}
}

// enoughWithout reports whether the attempt could go on without some nodes.
func (bl *blame) enoughWithout(out []string) bool {
	var rest []state.Participant
	for _, part := range bl.facts.c.Plan.Participants {
		if !slices.Contains(out, part.Node) && !slices.Contains(bl.out.excluded, part.Node) {
			rest = append(rest, part)
		}
	}
	return bl.lineup.carries(bl.lineup.fit(rest))
}
