package consensus

import (
	"errors"

	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/state"
)

// Candidates are the SNs that wait for an operator to admit them, as the leader remembers them; elsewhere there are none.
func (g *Group) Candidates() []admission.Candidate { return g.asking.List() }

// judgeAdmission remembers an SN that no operator has admitted, where operators do. Whatever else keeps it from registering is
// told first, since an operator could not help it.
func (g *Group) judgeAdmission(req JoinRequest) *JoinRefusal {
	view, node := g.View(), req.Register.Node
	if view.Admit == "" {
		return nil
	}
	_, _, err := view.Apply(req.Register)
	waits := admission.Candidate{Name: node.Name, PeerID: node.PeerID, SPIFFEID: node.SPIFFEID, Host: node.Host}
	if state.ReasonOf(err) == state.ReasonNotAdmitted && g.asking.Note(waits) {
		g.log.Warn("an SN waits to be admitted", "node", node.Name, "peer_id", node.PeerID, "spiffe_id", node.SPIFFEID, "remedy", admission.Command(node.Name, node.PeerID))
	}
	return refusalOf(err)
}

// refusalOf makes a refusal of the state's; nil if err is none.
func refusalOf(err error) *JoinRefusal {
	rejected, ok := errors.AsType[*state.Error](err)
	if !ok {
		return nil
	}
	return &JoinRefusal{
		Reason: rejected.Reason, Message: rejected.Message, Remedy: rejected.Remedy, Retry: rejected.Reason == state.ReasonNotAdmitted,
	}
}

// notAdmitted tells whether an SN was refused for want of an operator's word.
func notAdmitted(err error) bool {
	refusal, ok := errors.AsType[*JoinRefusal](err)
	return ok && refusal.Reason == state.ReasonNotAdmitted
}

// tellWaits says once that this SN waits for an operator, and what that one is to type.
func (g *Group) tellWaits(told bool) bool {
	if !told {
		g.log.Warn("this SN waits until an operator admits it", "node", g.cfg.Name, "type", admission.Command(g.cfg.Name, g.self.PeerID))
	}
	return true
}
