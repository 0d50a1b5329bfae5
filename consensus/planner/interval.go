package planner

import (
	"math"
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
)

// lossHistory is what the adaptive rule needs of earlier rounds. A new leader begins without: the interval goes on from
// the last committed one, and the first comparison takes two more rounds.
type lossHistory struct {
	round    uint64 // the round that the fields below were brought up to
	interval uint32 // what was decided for it
	mean     float64
	known    bool
	stalls   int
}

const (
	improvement = 0.01 // a fall of the mean loss by more than this share lengthens the interval
	stallRounds = 2    // as many rounds without one shorten it
	maxStretch  = 16   // times the start interval
	maxShrink   = 4
)

// nextInterval returns the number of batches until the Sync after the round that is about to be committed.
func (d *decider) nextInterval() uint32 {
	start, adaptive := d.startInterval()
	if !adaptive {
		return start
	}
	h := d.mem.loss
	if h.round == d.mem.round {
		return h.interval // The same commit is proposed again.
	}
	current := start
	if d.c.Committed != nil {
		current = d.c.Committed.NextInterval
	}
	if mean, ok := d.meanLoss(); ok {
		switch {
		case !h.known:
		case h.mean-mean > improvement*math.Abs(h.mean):
			current = uint32(min(uint64(current)*2, uint64(start)*maxStretch, math.MaxInt32/2))
			h.stalls = 0
		default:
			if h.stalls++; h.stalls >= stallRounds {
				current = max(current/2, start/maxShrink, 1)
				h.stalls = 0
			}
		}
		h.mean, h.known = mean, true
	}
	h.round, h.interval = d.mem.round, current
	d.mem.loss = h
	return current
}

// startInterval is the smallest sync frequency of the open sessions, but no less than a tenth of their lower median, so that one
// peer does not have all others merge after every batch; and whether all of them ask for the adaptive rule.
// When none is open any more the last interval stays.
func (d *decider) startInterval() (uint32, bool) {
	var asked []uint32
	adaptive := true
	for _, s := range d.c.Active() {
		if s.State != state.SessionOpen {
			continue
		}
		asked = append(asked, s.SyncFrequency)
		adaptive = adaptive && s.Adaptive
	}
	slices.Sort(asked)
	switch {
	case len(asked) > 0:
		return max(asked[0], asked[(len(asked)-1)/2]/asksCount), adaptive
	case d.c.Committed != nil:
		return d.c.Committed.NextInterval, false
	default:
		return 1, false
	}
}

// meanLoss is the mean of the losses that participants measured on the model that they started from.
func (d *decider) meanLoss() (float64, bool) {
	base := d.c.Round()
	if base == 0 {
		return 0, false
	}
	sum, n := 0.0, 0
	for _, part := range d.c.Plan.Participants {
		p := d.in.Reports[part.Session].Progress
		if p == nil || !p.HasLoss || p.Round != base || math.IsNaN(p.Loss) || math.IsInf(p.Loss, 0) {
			continue
		}
		sum += p.Loss
		n++
	}
	if n == 0 || math.IsInf(sum, 0) {
		return 0, false
	}
	return sum / float64(n), true
}
