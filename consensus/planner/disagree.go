package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
)

// AboutDigests reports whether an attempt failed because the participants' digests did not fit together.
func AboutDigests(why string) bool {
	return slices.ContainsFunc([]string{"has not sealed", "it sealed", twoOutcomes, otherDigest, "has not signed", "it signed", notWitnessed, unlike, disagreeOn},
		func(part string) bool { return strings.Contains(why, part) })
}

// twoOutcomes is the reason against who signed another outcome of an attempt when it was asked what it had got.
const twoOutcomes = "signed two outcomes of one attempt"

// otherDigest is the reason against who agrees with all owners and reports another whole.
const otherDigest = "digest differs from the others'"

// verdict is what the digests of one attempt tell once all participants have reported.
type verdict struct {
	failures []failure // what does not fit together, in plan order; empty: all agree
	named    []string  // who must have lied if most are honest, sorted
}

// comparison holds what participants report of an attempt against each other.
type comparison struct {
	facts *facts
	tries *attempts
}

// disagree compares what all participants signed. If that is one outcome there is nothing to compare; else everybody was asked, and reports the digest of every shard with its owner's seal on it, so
// a digest that its owner has not sealed convicts who reports it, and two that it has sealed convict the owner. What is left are
// wholes: who agrees on all shards can still report another model or optimiser state.
func (co *comparison) disagree(done map[string]reports.Report) verdict {
	parts := co.facts.c.Plan.Participants
	v := verdict{failures: co.contradictions(done)}
	v.failures = append(v.failures, co.claims(done, v.failures)...)
	for _, f := range v.failures {
		if f.blamed == f.node { // else two do not agree, and nobody knows which is wrong
			v.named = append(v.named, f.blamed)
		}
	}
	groups := map[string][]string{}
	for _, part := range parts {
		if !slices.Contains(v.named, part.Node) {
			r := done[part.Session].Done
			key := r.ModelDigest + " " + r.StateDigest
			if len(v.named) > 0 {
				key = "" // Whose shards differ for another's lie has another whole for it.
			}
			groups[key] = append(groups[key], part.Node)
		}
	}
	if len(groups) < 2 {
		slices.Sort(v.named)
		return v
	}
	var most []string
	for _, members := range groups {
		if 2*len(members) > len(parts) {
			most = members
		}
	}
	for _, node := range nodesOf(parts) {
		if slices.Contains(most, node) {
			continue
		}
		f := failure{node: node, reason: otherDigest, at: co.facts.in.Now}
		if most != nil {
			// Its own signature proves it; beyond this attempt only if most of all are against it.
			f.blamed, f.proof = node, 2*len(most) > len(co.facts.c.Active())
			v.named = append(v.named, node)
		}
		v.failures = append(v.failures, f)
	}
	slices.Sort(v.named)
	return v
}

// contradictions lists who is convicted by its own signature, in plan order, once each.
func (co *comparison) contradictions(done map[string]reports.Report) (found []failure) {
	parts := co.facts.c.Plan.Participants
	for j, p := range parts {
		f := failure{node: p.Node, blamed: p.Node, at: co.facts.in.Now, proof: true}
		if owner := done[p.Session].Unsealed; owner != "" {
			f.reason = fmt.Sprintf("reports a digest of what %s gave that %s has not sealed", owner, owner)
			found = append(found, f)
			continue
		}
		if co.retracts(p.Session, done[p.Session].Done) {
			f.reason = twoOutcomes
			found = append(found, f)
			continue
		}
		first, to := "", ""
		for _, reporter := range parts {
			r := done[reporter.Session]
			if p.ShardLeaves == 0 || r.Unsealed != "" || len(r.Done.ShardDigests) != len(parts) {
				continue
			}
			switch got := r.Done.ShardDigests[j]; {
			case first == "":
				first, to = got, reporter.Node
			case got != first && f.reason == "":
				f.reason = fmt.Sprintf("it sealed digest %.12s for %s and %.12s for %s", first, to, got, reporter.Node)
				found = append(found, f)
			}
		}
	}
	return found
}

func nodesOf(parts []state.Participant) []string {
	names := make([]string, 0, len(parts))
	for _, part := range parts {
		names = append(names, part.Node)
	}
	return names
}
