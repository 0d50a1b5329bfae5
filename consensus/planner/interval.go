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

// interval says how many batches programs train until the next Sync.
type interval struct {
	facts *facts
	loss  *lossHistory
}

// nextInterval returns the number of batches until the Sync after the round that is about to be committed.
func (iv *interval) nextInterval() uint32 {
	start, adaptive := iv.facts.startInterval()
	if !adaptive {
		return start
	}
	h := *iv.loss
	if h.round == iv.facts.round() {
		return h.interval // The same commit is proposed again.
	}
	current := start
	if iv.facts.c.Committed != nil {
		current = iv.facts.c.Committed.NextInterval
	}
	if mean, ok := iv.facts.meanLoss(); ok {
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
	h.round, h.interval = iv.facts.round(), current
	*iv.loss = h
	return current
}

// startInterval is the smallest sync frequency of the open sessions, but no less than a tenth of their lower median, so that one
// peer does not have all others merge after every batch; and whether all of them ask for the adaptive rule.
// When none is open any more the last interval stays.
func (f *facts) startInterval() (uint32, bool) {
	var asked []uint32
	adaptive := true
	for _, s := range f.c.Active() {
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
	case f.c.Committed != nil:
		return f.c.Committed.NextInterval, false
	default:
		return 1, false
	}
}

// meanLoss is the mean of the losses that participants measured on the model that they started from.
func (f *facts) meanLoss() (float64, bool) {
	base := f.c.Round()
	if base == 0 {
		return 0, false
	}
	sum, n := 0.0, 0
	for _, part := range f.c.Plan.Participants {
		p := f.in.Reports[part.Session].Progress
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
