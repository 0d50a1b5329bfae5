// Package weightcap bounds the weight that one participant of a round has among all. It is a pure function.
package weightcap

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
)

// Apply returns weights of which none is more than a share of their sum, in millionths: what is above goes down to one
// common level, which water-filling finds; the rest keeps its proportions. All is done in 64-bit integers, which hold it for
// weights up to state.MaxSamples, so every leader plans the same. Weights that keep the cap, no cap (0), and one that so few can't keep
// leave them as they are; what is returned may share their memory.
func Apply(weights []uint32, ppm uint32) []uint32 {
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
