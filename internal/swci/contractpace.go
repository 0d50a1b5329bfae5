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
