package planner

import (
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

const (
	// silentTimeouts is how many heartbeat timeouts a participant that was declared dead for its silence may take part in an attempt whose
	// others are late too. Their streams to it tell before that whether it is there: by their end, or by their stall time.
	silentTimeouts = 3
	// manyParticipants is from how many on one or the other is always late.
	manyParticipants = 16
	// lateParts is the part of the heartbeat timeout after which one is late: two heartbeats at least are missing.
	lateParts = 2
)

// gone returns the participants that can't finish: their session has ended or their node is dead.
func (f *facts) gone() (nodes []string, why string) {
	for _, part := range f.c.Plan.Participants {
		s, n := f.c.Sessions[part.Session], f.in.View.Nodes[part.Node]
		reason := ""
		switch {
		case s != nil && s.EndReason == state.EndBanned:
			reason = part.Node + " is banned"
		case s == nil || s.State == state.SessionEnded:
			reason = part.Node + " has left"
		case n == nil || !n.Live:
			reason = part.Node + " is lost"
		default:
			continue
		}
		nodes = append(nodes, part.Node)
		if why == "" {
			why = reason
		}
	}
	return nodes, why
}

// mayBeThere reports whether all who are gone are only silent, and not for long, while others have not finished who are late with their
// heartbeats too, or many. Silence tells something where the others are heard: of a hundred nodes on one host that is busy with merging some
// have too little processor time for heartbeats, and to end the attempt of all for each of them would end every attempt.
func (f *facts) mayBeThere(gone, pending []string) bool {
	late, many := false, len(f.c.Plan.Participants) >= manyParticipants
	for _, part := range f.c.Plan.Participants {
		s, n := f.c.Sessions[part.Session], f.in.View.Nodes[part.Node]
		switch {
		case !slices.Contains(gone, part.Node):
			since := f.in.Now.Sub(f.in.Reports[part.Session].At)
			late = late || slices.Contains(pending, part.Node) && (many || since > f.cfg.HeartbeatTimeout/lateParts)
		case s == nil || s.State == state.SessionEnded || n == nil || n.Left():
			return false
		case f.in.Now.Sub(time.UnixMilli(n.LiveSinceMS)) >= silentTimeouts*f.cfg.HeartbeatTimeout:
			return false
		}
	}
	return late
}
