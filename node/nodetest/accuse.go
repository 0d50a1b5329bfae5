package nodetest

import (
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/statement"
)

// slander returns what the SL reports: what it has to say, or something false.
func (n *sl) slander(r *round.Report) *round.Report {
	if r.Done == nil || !n.swarm.Liars.accusing(n.id.name) {
		return r
	}
	told := *r
	told.Done, told.Failed = nil, &round.Failed{
		Round: r.Done.Round, Attempt: r.Done.Attempt, Blamed: n.victim(r.Done), Reason: "no byte came in time",
	}
	told.Signature, _ = n.id.key.Sign(statement.Message(n.id.name, &told)) // Ed25519: never fails
	return &told
}

// victim is the first other participant of the attempt, nobody if that is over.
func (n *sl) victim(done *round.Done) string {
	p := n.engineNow().View().Plan
	if p == nil || p.Round != done.Round || p.Attempt != done.Attempt {
		return ""
	}
	for _, other := range p.Participants {
		if other.Node != n.id.name {
			return other.Node
		}
	}
	return ""
}
