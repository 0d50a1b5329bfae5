package nodetest

import (
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/session/statement"
)

// Accuse has an SL, until Honest, report of each attempt that it has merged that it could not go on with the first other
// participant.
func (s *Swarm) Accuse(name string) {
	n := s.sl(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.accuses = true
}

// slander returns what the SL reports: the request itself, or a false one.
func (n *sl) slander(req *swarmv1.ReportRequest) *swarmv1.ReportRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.accuses {
		return req
	}
	told, _ := proto.Clone(req).(*swarmv1.ReportRequest)
	for _, r := range told.GetSessions() {
		if done := r.GetDone(); done != nil {
			r.Done = nil
			r.Failed = &swarmv1.Failed{
				Round: done.Round, Attempt: done.Attempt, Blamed: n.victim(done), Reason: "no byte came in time",
			}
			r.Signature, _ = n.id.key.Sign(statement.Message(n.id.name, r)) // Ed25519: never fails
		}
	}
	return told
}

// victim is the first other participant of the attempt, nobody if that is over.
func (n *sl) victim(done *swarmv1.Done) string {
	p := n.engine.View().GetPlan()
	if p.GetRound() != done.Round || p.GetAttempt() != done.Attempt {
		return ""
	}
	for _, other := range p.Participants {
		if other.Node != n.id.name {
			return other.Node
		}
	}
	return ""
}
