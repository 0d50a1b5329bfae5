package lead

import (
	"fmt"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/consensus/state"
)

// wrongBytes is what a user can do when digests do not fit together.
const wrongBytes = "one of the peers named above sends or reports wrong bytes: check its version, memory and disk, " +
	"or keep it out: swarmctl ban node NAME"

// aboutDigests tells whether an attempt failed because the participants' digests did not fit together.
func aboutDigests(why string) bool {
	return strings.Contains(why, "of the two is wrong") || strings.Contains(why, otherDigest)
}

// otherDigest is the reason against who agrees with all owners and reports another whole.
const otherDigest = "digest differs from the others'"

// verdict is what the digests of one attempt tell once all participants have reported.
type verdict struct {
	failures []failure // what does not fit together, in plan order; empty: all agree
	named    []string  // who must have lied if most are honest, sorted
}

// disagree compares what all participants signed. Everybody reports the digest of every shard as received, an owner's word
// on its own shard being what it says it has sent. Where a receiver's digest differs from its owner's, one of the two lies:
// the owner sent other bytes, or the receiver reports what it did not get. Such pairs are links that do not carry, and
// only who is one of them in every smallest explanation is named; consensus/DESIGN.md says why.
func (d *decider) disagree(done map[string]*Done) verdict {
	parts := d.c.Plan.Participants
	v := verdict{failures: d.mismatches(done)}
	if len(v.failures) > 0 {
		v.named = liars(nodesOf(parts), v.failures)
	}
	// Who agrees with every owner on the shards can still report another whole.
	groups := map[string][]string{}
	for _, part := range parts {
		if !slices.ContainsFunc(v.failures, func(f failure) bool { return f.node == part.Node || f.blamed == part.Node }) {
			r := done[part.Session]
			key := r.ModelDigest + " " + r.StateDigest + " " + strings.Join(r.ShardDigests, " ")
			groups[key] = append(groups[key], part.Node)
		}
	}
	if len(groups) < 2 {
		return v
	}
	var most []string
	for _, members := range groups {
		if 2*len(members) > len(parts) {
			most = members
		}
	}
	for _, node := range nodesOf(parts) {
		var mine []string
		for _, members := range groups {
			if slices.Contains(members, node) {
				mine = members
			}
		}
		if mine == nil || len(most) > 0 && slices.Contains(most, node) {
			continue
		}
		f := failure{node: node, reason: otherDigest, at: d.in.Now}
		if most != nil {
			// Its own signature proves it; beyond this attempt only if most of all are against it.
			f.blamed, f.proof = node, 2*len(most) > len(d.c.Active())
			v.named = append(v.named, node)
		}
		v.failures = append(v.failures, f)
	}
	slices.Sort(v.named)
	return v
}

// mismatches lists the shards that were received otherwise than their owners say. The receiver is the one that tells.
func (d *decider) mismatches(done map[string]*Done) []failure {
	parts := d.c.Plan.Participants
	var found []failure
	for i, reporter := range parts {
		got := done[reporter.Session].ShardDigests
		for j, owner := range parts {
			said := done[owner.Session].ShardDigests
			if i == j || owner.ShardLeaves == 0 || len(got) != len(parts) || len(said) != len(parts) || got[j] == said[j] {
				continue
			}
			found = append(found, failure{
				node: reporter.Node, blamed: owner.Node, at: d.in.Now,
				line: fmt.Sprintf("%s reports digest %.12s of what %s sent, %s signed %.12s: one of the two is wrong",
					reporter.Node, got[j], owner.Node, owner.Node, said[j]),
			})
		}
	}
	return found
}

// liars returns the nodes that belong to every smallest set of liars that explains all mismatches, sorted; nobody if that
// set would hold half of the nodes, or more: then there is no honest majority to rely on.
func liars(nodes []string, mismatches []failure) []string {
	honest := len(connected(nodes, mismatches)) // the most that may all be honest
	if 2*(len(nodes)-honest) >= len(nodes) {
		return nil
	}
	var named []string
	for _, node := range nodes {
		against := map[string]bool{node: true}
		for _, f := range mismatches {
			switch node {
			case f.node:
				against[f.blamed] = true
			case f.blamed:
				against[f.node] = true
			}
		}
		rest := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return against[n] })
		if 1+len(connected(rest, mismatches)) < honest { // To believe it takes more liars.
			named = append(named, node)
		}
	}
	slices.Sort(named)
	return named
}

func nodesOf(parts []state.Participant) []string {
	names := make([]string, 0, len(parts))
	for _, part := range parts {
		names = append(names, part.Node)
	}
	return names
}
