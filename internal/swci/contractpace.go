package swci

import (
	"slices"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// isStuck reports whether a contract waits for something that should not last. Programs that train are no such thing, unless the node of one is dead.
func isStuck(st *swarmv1.GetContractStatusResponse) bool {
	if waiting := st.GetWaiting(); waiting == "" || !waitsForTraining(waiting) {
		return waiting != ""
	}
	return slices.ContainsFunc(st.GetContract().GetSessions(), func(x *swarmv1.Session) bool { return x.GetState() != "ended" && !x.GetLive() })
}

// waitsForTraining reports whether a leader's sentence begins with names of programs that train. What follows may be somebody else's words.
func waitsForTraining(waiting string) bool {
	names, _, found := strings.Cut(waiting, " (still training) since ")
	names, begins := strings.CutPrefix(names, "waiting for ")
	return found && begins && !strings.ContainsAny(names, ":;()")
}

// leftOf is how long a session's program still needs, in seconds, at the pace of the rounds that the leader remembers; nil: that is not known. It is
// by the clocks of SNs alone, and nothing that was before those rounds counts: a leader that is new remembers few of a long training.
func leftOf(x *swarmv1.Session, st *swarmv1.GetContractStatusResponse) *float64 {
	p, recent := x.GetProgress(), st.GetRecent()
	done, total := float64(p.GetEpochsDone()), float64(p.GetTotalEpochs())
	waits := st.GetWaiting() != "" && !waitsForTraining(st.GetWaiting())
	if waits || x.GetState() != "open" || !x.GetLive() || st.GetContract().GetHalt() != nil || done == 0 || total <= done || len(recent) < 2 {
		return nil
	}
	first, last := recent[0], recent[len(recent)-1]
	took, rounds := float64(last.GetPlannedUnixMs()-first.GetPlannedUnixMs())/1000, float64(last.GetRound())-float64(first.GetRound())
	if took <= 0 || rounds <= 0 {
		return nil
	}
	left := took / rounds * float64(last.GetRound()) * (total - done) / done
	return &left
}
