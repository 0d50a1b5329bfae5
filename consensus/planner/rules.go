package planner

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// participants makes a plan's participants of peers, in their order.
func (d *decider) participants(peers []peer) []state.Participant {
	parts := make([]state.Participant, 0, len(peers))
	for _, p := range peers {
		parts = append(parts, state.Participant{Session: p.session.ID, Node: p.session.Node, Weight: p.weight, Seq: p.seq})
	}
	return d.fit(parts)
}

// fit returns the participants with weights under the contract's cap and the factors of a method that bounds updates. Both
// depend on who else takes part, so they are made anew for each attempt from what the peers say, or, where one says nothing
// now, from the plan before.
func (d *decider) fit(parts []state.Participant) []state.Participant {
	parts = slices.Clone(parts)
	for i, p := range parts {
		if d.spent(p) {
			parts[i].Weight = 0
		}
	}
	ppm := uint32(0)
	if d.c.Rules != nil {
		ppm = d.c.Rules.WeightCapPPM
	}
	bounds := d.method != nil && d.method.Bounds()
	if ppm == 0 && !bounds {
		return parts
	}
	said := map[string]peer{}
	for _, p := range d.roster() {
		said[p.session.ID] = p
	}
	all := !slices.ContainsFunc(parts, func(p state.Participant) bool { return !said[p.Session].ready })
	weights := make([]uint32, len(parts))
	for i := range parts {
		if all {
			if !d.spent(parts[i]) {
				parts[i].Weight = said[parts[i].Session].weight
			}
			parts[i].NormBits = normBits(said[parts[i].Session].norm, bounds)
		}
		weights[i] = parts[i].Weight
	}
	for i, w := range capped(weights, ppm) {
		parts[i].Weight = w
	}
	if bounds {
		d.bound(parts)
	}
	return parts
}

// spent reports whether a participant's contribution must count 0, since two owners may have leaves that others own now.
func (d *decider) spent(p state.Participant) bool { return d.c.Spent(p) || d.mem.frozen[p.Session] }

// normBits is a declared norm as a plan carries it: a norm that is none counts as the largest.
func normBits(norm float64, bounds bool) uint64 {
	switch {
	case !bounds || norm == 0:
		return 0
	case norm > 0 && norm <= math.MaxFloat64:
		return math.Float64bits(norm)
	}
	return math.Float64bits(math.MaxFloat64)
}

// bound sets the factors of all who contribute.
func (d *decider) bound(parts []state.Participant) {
	var weights []uint32
	var norms []float64
	for _, p := range parts {
		if p.Weight > 0 {
			weights, norms = append(weights, p.Weight), append(norms, math.Float64frombits(p.NormBits))
		}
	}
	if len(weights) == 0 {
		return
	}
	factors := d.method.Factors(weights, norms)
	for i := range parts {
		parts[i].FactorBits = 0
		if parts[i].Weight > 0 && len(factors) > 0 {
			parts[i].FactorBits, factors = math.Float64bits(factors[0]), factors[1:]
		}
	}
}

// capped returns weights of which none is more than a share of their sum, in millionths: what is above goes down to one
// common level, which water-filling finds; the rest keeps its proportions. All is done in integers, so every leader plans the
// same. Weights that keep the cap, no cap (0), and one that so few can't keep leave them as they are.
func capped(weights []uint32, ppm uint32) []uint32 {
	sorted := slices.DeleteFunc(slices.Clone(weights), func(w uint32) bool { return w == 0 })
	if ppm == 0 || uint64(ppm)*uint64(len(sorted)) < state.PPM {
		return weights
	}
	slices.SortFunc(sorted, func(a, b uint32) int { return int(b) - int(a) })
	rest, k := uint64(0), uint64(0) // the sum of those below the level, and how many are above
	for _, w := range sorted {
		rest += uint64(w)
	}
	// The level of k capped weights is ppm x rest / (PPM - k x ppm): that many hold their cap of the sum exactly.
	for int(k) < len(sorted) && uint64(sorted[k])*(state.PPM-k*uint64(ppm)) > uint64(ppm)*rest {
		rest -= uint64(sorted[k])
		k++
	}
	if k == 0 {
		return weights
	}
	return scaled(weights, uint64(ppm), rest, k)
}

// finest is the level that capped weights are scaled to, which leaves room below state.MaxPlannedWeight for rounding.
const finest = 9_000

// scaled counts the weights finer, so that the level is a whole number that keeps the cap.
func scaled(weights []uint32, ppm, rest, k uint64) []uint32 {
	den := state.PPM - k*ppm
	level := ppm * rest // / den
	out, low := slices.Clone(weights), uint64(0)
	for i, w := range weights {
		if uint64(w)*den > level {
			out[i] = 0
			continue
		}
		fine := (uint64(w)*den*finest + level - 1) / level // rounded up: more of the rest never breaks the cap of those above
		out[i] = uint32(fine)                              //nolint:gosec // at most finest
		low += fine
	}
	top := min(ppm*low/den, state.MaxPlannedWeight)
	for i, w := range weights {
		if uint64(w)*den > level {
			out[i] = uint32(top) //nolint:gosec // bounded above
		}
		out[i] = min(out[i], uint32(top)) //nolint:gosec // bounded above
	}
	return out
}

// carries reports whether these could hold a round.
func (d *decider) carries(parts []state.Participant) bool {
	return len(parts) >= int(d.c.Terms.MinPeers) && weight(parts) > 0 && d.checkPlan(parts) == nil
}

// checkPlan returns which rule forbids a round of these participants, or nil.
func (d *decider) checkPlan(parts []state.Participant) error {
	if err := d.c.CheckPlan(parts); err != nil {
		return err
	}
	allotted, err := d.in.View.Allot(d.c, parts)
	switch state.ReasonOf(err) {
	case state.ReasonNoOwner, state.ReasonWitnesses:
		return err
	case "":
		return d.reportable(allotted)
	}
	return nil
}

// ruled waits because a rule forbids the round that could be held.
func (d *decider) ruled(w Waiting, err error) {
	d.mem.readySince = time.Time{}
	switch state.ReasonOf(err) {
	case state.ReasonRequired:
		w.Kind = WaitRequired
	case state.ReasonWeightShare:
		w.Kind = WaitShare
	case state.ReasonWeightCap:
		w.Kind = WaitCap
	case state.ReasonNoOwner:
		w.Kind = WaitOwners
	case state.ReasonWitnesses:
		w.Kind = WaitWitnesses
	default:
		w.Kind = WaitMethod
	}
	w.Rule = err.Error()
	d.holdOn(w)
}

// below counts the time below minPeers if a rule bounds it, and ends all sessions when it is over; then it is true.
func (d *decider) below(w *Waiting) bool {
	if d.c.Rules == nil || d.c.Rules.MinPeersTimeoutMS == 0 {
		return false
	}
	if d.mem.belowSince.IsZero() {
		d.mem.belowSince = d.in.Now
	}
	limit := time.Duration(d.c.Rules.MinPeersTimeoutMS) * time.Millisecond
	if w.Until = d.mem.belowSince.Add(limit); d.in.Now.Before(w.Until) {
		w.Fails = true
		return false
	}
	d.fail(fmt.Sprintf("failed: fewer than minPeers for %s, as long as the contract's rules allow: %d of %d were there", limit, len(w.Have), w.Need), true)
	return true
}

func (d *decider) fail(reason string, below bool) {
	d.propose(state.FailContract{
		Contract: d.c.Name, Run: d.c.Run, Reason: reason, Below: below, AtMS: d.in.Now.UnixMilli(),
	}, "that all sessions end: "+reason)
}
