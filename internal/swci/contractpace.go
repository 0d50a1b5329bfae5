package swci

import (
	"regexp"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// isStuck reports whether a contract waits for something that should not last. Programs that train and a first attempt to merge are no such thing,
// unless a node of one is dead.
func isStuck(st *swarmv1.GetContractStatusResponse) bool {
	if waiting := st.GetWaiting(); waiting == "" || !isOrdinary(waiting) {
		return waiting != ""
	}
	return slices.ContainsFunc(st.GetContract().GetSessions(), func(x *swarmv1.Session) bool { return x.GetState() != "ended" && !x.GetLive() })
}

// ordinary is what each round waits for, as a leader says it: names of programs that train, behind which may stand somebody else's words; a first
// attempt to merge, with nothing behind it; a commit under way.
var ordinary = regexp.MustCompile(`^(waiting for [^:;()]*? \(still training\) since |merging round [0-9]+ \(attempt 1\): waiting for [^;]*$|committing: )`)

func isOrdinary(waiting string) bool { return ordinary.MatchString(waiting) }

// paceRounds is of how many rounds, the newest, the pace is: what everybody who shows a contract asks for.
const paceRounds = 32

// leftOf is how long a session's program still needs, in seconds: so long as its epochs that are left take with the merges that it asked for in
// each of those done, at the pace of the newest rounds; nil: that is not known. It is by the clocks of SNs alone, and nothing of before those
// rounds counts, nor of before the program began.
func leftOf(x *swarmv1.Session, st *swarmv1.GetContractStatusResponse) *float64 {
	p, recent := x.GetProgress(), st.GetRecent()
	recent = recent[max(0, len(recent)-paceRounds):]
	done, total, merges := float64(p.GetEpochsDone()), float64(p.GetTotalEpochs()), float64(x.GetLastSeq())
	waits := st.GetWaiting() != "" && !isOrdinary(st.GetWaiting())
	if waits || x.GetState() != "open" || !x.GetLive() || st.GetContract().GetHalt() != nil || done == 0 || merges == 0 || total <= done || len(recent) < 2 {
		return nil
	}
	first, last := recent[0], recent[len(recent)-1]
	took, rounds := float64(last.GetPlannedUnixMs()-first.GetPlannedUnixMs())/1000, float64(last.GetRound())-float64(first.GetRound())
	if took <= 0 || rounds <= 0 {
		return nil
	}
	left := took / rounds * merges / done * (total - done)
	return &left
}
