package planner

import (
	"fmt"
	"math"

	"github.com/swarmd/swarmd/consensus/planner/reports"
)

// normTolerance is how far, relative to it, the squares that owners sum may lie from the square of the declared norm. Both
// are float64 sums in another order.
const normTolerance = 1e-3

// normBits is a declared norm as a plan carries it: a norm that is none counts as the largest.
func normBits(norm float64, boundsNorms bool) uint64 {
	switch {
	case !boundsNorms || norm == 0:
		return 0
	case norm > 0 && norm <= math.MaxFloat64:
		return math.Float64bits(norm)
	}
	return math.Float64bits(math.MaxFloat64)
}

// overstep holds what each participant declared about its update to what the owners of all shards have seen of it: who
// declared a smaller norm than it has would be bounded less than the others. Whoever did so is named as by signed proof, since
// the declaration is its own word, unless that would be half of the participants, or more. Empty for methods that bound
// nothing.
func (co *comparison) overstep(done map[string]reports.Report) verdict {
	if co.facts.method == nil || !co.facts.method.BoundsNorms() {
		return verdict{}
	}
	parts := co.facts.c.Plan.Participants
	sums := make([]float64, len(parts))
	var v verdict
	for _, owner := range parts {
		squares := done[owner.Session].Done.UpdateSquares
		if owner.ShardLeaves == 0 && len(squares) == 0 {
			continue
		}
		if !plausible(squares, len(parts)) {
			v.failures = append(v.failures, failure{node: owner.Node, blamed: owner.Node, reason: "reported no sums of squares of its shard", at: co.facts.in.Now, proof: true})
			v.named = append(v.named, owner.Node)
			continue
		}
		for i, x := range squares {
			sums[i] += x
		}
	}
	if len(v.failures) > 0 {
		return v
	}
	for i, p := range parts {
		norm := math.Float64frombits(p.NormBits)
		square := norm * norm
		if p.Weight == 0 || math.IsInf(square, 0) || math.Abs(sums[i]-square) <= normTolerance*square {
			continue
		}
		v.failures = append(v.failures, failure{
			node: p.Node, blamed: p.Node, at: co.facts.in.Now,
			reason: fmt.Sprintf("its update has norm %.6g, it declared %.6g", math.Sqrt(sums[i]), norm),
		})
		v.named = append(v.named, p.Node)
	}
	if 2*len(v.named) >= len(parts) {
		// One owner's sums can put all in the wrong. That most lie is less likely than that it does, and who it is can't be told.
		for i := range v.failures {
			v.failures[i].blamed = ""
		}
		v.named = nil
	}
	return v
}

// plausible reports whether a report has one sum for each participant; that of a huge update may be beyond any number.
func plausible(squares []float64, n int) bool {
	if len(squares) != n {
		return false
	}
	for _, x := range squares {
		if !(x >= 0) {
			return false
		}
	}
	return true
}
