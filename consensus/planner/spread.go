package planner

import (
	"cmp"
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
)

// maxPlans bounds how many attempts of a round are remembered.
const maxPlans = 64

// notes remembers the running attempt, if its parts have witnesses.
func (at *attempt) notes() {
	p, had := at.facts.c.Plan, at.tries.plans
	if p.Witnesses == 0 || len(had) > 0 && had[len(had)-1].Attempt == p.Attempt {
		return
	}
	at.tries.plans = append(slices.Clone(had[max(0, len(had)-maxPlans+1):]), p)
}

// seen is some leaves in a row that a witness may have of a contribution.
type seen struct {
	state.LeafRun
	by string
}

// spreads names those for whom a participant must refuse the running attempt: as nodes left, one after the other, others took their
// place as witnesses, until a leaf of what it offers would go to more than may ever get it. It is none if that is not so.
func (at *attempt) spreads(part state.Participant) []string {
	var all []seen
	var before, leavers []string
	known := map[seen]bool{}
	for _, p := range at.tries.plans {
		now := nodesOf(p.Participants)
		self := slices.IndexFunc(p.Participants, func(x state.Participant) bool {
			return x.Session == part.Session && x.Seq == part.Seq && x.Weight > 0
		})
		if self < 0 {
			continue
		}
		for _, n := range before {
			if !slices.Contains(now, n) && !slices.Contains(leavers, n) {
				leavers = append(leavers, n)
			}
		}
		before = now
		for owner, mergers := range at.facts.mergers(p.Participants, p.Witnesses) {
			for _, w := range mergers[min(1, len(mergers)):] {
				for _, run := range p.Participants[owner].Runs() {
					if s := (seen{run, now[w]}); w != self && !known[s] {
						known[s], all = true, append(all, s)
					}
				}
			}
		}
	}
	if mostWitnesses(all) <= 2*(int(at.facts.c.Plan.Witnesses)-1) {
		return nil
	}
	return leavers
}

// mostWitnesses returns how many may have one leaf, at most.
func mostWitnesses(all []seen) (most int) {
	type edge struct {
		at   uint64
		step int // what comes behind an end comes after it
		by   string
	}
	edges := make([]edge, 0, 2*len(all))
	for _, s := range all {
		edges = append(edges, edge{s.First, 1, s.by}, edge{s.First + s.Leaves, -1, s.by})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.step-b.step) })
	have := map[string]int{}
	for _, e := range edges {
		if have[e.by] += e.step; have[e.by] == 0 {
			delete(have, e.by)
		}
		most = max(most, len(have))
	}
	return most
}
