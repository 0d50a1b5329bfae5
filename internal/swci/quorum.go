package swci

import (
	"slices"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// noQuorumJSON is the key no_quorum of commands that show what one SN knows.
type noQuorumJSON struct {
	Message    string        `json:"message" doc:"how many SNs answer, in words"`
	Remedy     string        `json:"remedy" doc:"what to do about it"`
	SN         string        `json:"sn" doc:"that was asked, and shows what it knew last"`
	Answering  []string      `json:"answering" doc:"SNs that vote and answer it, itself among them"`
	Missing    []missingJSON `json:"missing" doc:"SNs that vote and do not answer"`
	LeaderSeen *string       `json:"leader_seen" doc:"when it last had to do with a raft leader, null if it has not since it started; RFC 3339, UTC"`
}

type missingJSON struct {
	Name    string `json:"name" doc:"the SN's"`
	Address string `json:"address" doc:"HOST:PORT at which other SNs reach it"`
}

func noQuorumToJSON(q *swarmv1.NoQuorum) *noQuorumJSON {
	if q == nil {
		return nil
	}
	out := &noQuorumJSON{
		Message: q.GetMessage(), Remedy: q.GetRemedy(), SN: q.GetSn(), Answering: append([]string{}, q.GetAnswering()...), Missing: []missingJSON{},
		LeaderSeen: stamp(q.GetLeaderSeenUnixMs()),
	}
	for _, m := range q.GetMissing() {
		out.Missing = append(out.Missing, missingJSON{m.GetName(), m.GetAddress()})
	}
	return out
}

// shown is the error of a command that has shown what one SN knew last; nil if that SN is of a quorum.
func (s *Session) shown(q *swarmv1.NoQuorum) error {
	if q == nil {
		return nil
	}
	age := "before it was started"
	if seen := q.GetLeaderSeenUnixMs(); seen != 0 {
		age = ago(s.Env.Now(), seen) + " ago"
		if s.JSON { // who reads it again and again is told the same
			age = "at " + time.UnixMilli(seen).UTC().Format("2006-01-02 15:04:05 UTC")
		}
	}
	return exit.New(exit.NoLeader, q.GetRemedy(), "%s; this is what SN %s knew %s", text.Line(q.GetMessage()), text.Line(q.GetSn()), age)
}

// nodeState is a node's state in a word, and since when in Unix milliseconds, as far as the SN that was asked can know.
func nodeState(n *swarmv1.Node, q *swarmv1.NoQuorum) (state string, sinceMS int64) {
	since := n.GetLiveSinceUnixMs()
	switch {
	case n.GetBanned():
		return "banned", since
	case n.GetLeftReason() != "" && !n.GetLive():
		return "left", since
	case q != nil && slices.Contains(q.GetAnswering(), n.GetName()):
		return "alive", since
	case q != nil && slices.ContainsFunc(q.GetMissing(), func(m *swarmv1.MissingSN) bool { return m.GetName() == n.GetName() }):
		return "no answer", q.GetLeaderSeenUnixMs()
	case q != nil:
		return "unknown", q.GetLeaderSeenUnixMs()
	case n.GetLive():
		return "alive", since
	}
	return "dead", since
}
