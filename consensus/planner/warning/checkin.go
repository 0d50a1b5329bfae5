package warning

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
)

// anchorRounds is in how many merges the last weights of a peer that has finished have counted until it is said: in the first one they
// are what it has trained since the one before. The final merge is not the second of them: a peer that has finished an interval before the
// others is none that holds them back.
const anchorRounds = 2

// anchors finds peers that have finished, whose last weights, which do not change any more, count in merge after merge as nobody has
// chosen what they contribute. Who chose it knows.
func anchors(f Facts) (found []Warning) {
	sessions := make([]*state.Session, 0, len(f.Contract.Sessions))
	for _, s := range f.Contract.Sessions {
		sessions = append(sessions, s)
	}
	slices.SortFunc(sessions, func(a, b *state.Session) int { return cmp.Compare(a.Order, b.Order) })
	for _, s := range sessions {
		if s.Run != f.Contract.Run || s.CheckinFrom != state.CheckinFromNone || f.early(s) < anchorRounds {
			continue
		}
		found = append(found, Warning{Reason: Anchor, Node: s.Node, Text: fmt.Sprintf(
			"%s; checkinModelOnTrainEnd='inactive' leaves them out, 'once' counts them once", f.counts(s))})
	}
	return found
}

// early is in how many merges before the final one, if that has been, what a session left has counted.
func (f Facts) early(s *state.Session) uint64 {
	if last := f.Contract.Committed; f.Contract.Over && last != nil && s.LastRound == last.Round && s.ClosedRounds > 0 {
		return s.ClosedRounds - 1
	}
	return s.ClosedRounds
}

// counts says that what a session left counts, and how much.
func (f Facts) counts(s *state.Session) string {
	if f.Contract.Over || s.State != state.SessionClosed {
		return fmt.Sprintf("%s finished before the others; its last weights counted in %d merges", s.Node, s.ClosedRounds)
	}
	own, all := uint64(s.Weight), uint64(0)
	for _, x := range f.Contract.Active() {
		if x.State == state.SessionClosed && x.CheckinMode == state.CheckinInactive || x.CountedOnce() {
			continue
		}
		all += uint64(x.Weight)
	}
	if all == 0 {
		return s.Node + " has finished; its last weights count in every further merge"
	}
	if r := f.Contract.Rules; r != nil && r.WeightCapPPM > 0 && own*state.PPM > uint64(r.WeightCapPPM)*all {
		own, all = uint64(r.WeightCapPPM), state.PPM
	}
	d := gcd(own, all)
	return fmt.Sprintf("%s has finished; its last weights count %d/%d in every further merge", s.Node, own/d, all/d)
}

func gcd(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return max(a, 1)
}
