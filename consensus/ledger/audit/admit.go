package audit

import (
	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
)

// admitted are the node keys that may join as SNs: one for a name, one name for a key.
type admitted struct{ keys, names map[string]string }

func newAdmitted() *admitted { return &admitted{map[string]string{}, map[string]string{}} }

// admit lets a key join under a name, and no other.
func (a *admitted) admit(node, peerID string) {
	a.dismiss(a.keys[node])
	a.dismiss(peerID)
	a.keys[node], a.names[peerID] = peerID, node
}

// dismiss takes it back; nil admits nobody.
func (a *admitted) dismiss(peerID string) {
	if a == nil {
		return
	}
	if node, ok := a.names[peerID]; ok {
		delete(a.names, peerID)
		delete(a.keys, node)
	}
}

// founded notes who may join from the start, if operators admit SNs.
func (a *auditor) founded(s ledger.Swarm) {
	if s.Admit == "" && len(s.Admitted) == 0 {
		return
	}
	if s.Admit != "operator" {
		a.bad("admit", "nobody knows the policy %q", s.Admit)
	}
	a.admitted = newAdmitted()
	a.ordered = a.seq // whoever knows admission signs orders
	for _, x := range s.Admitted {
		a.admitted.admit(x.Node, x.PeerID)
	}
}

// admission judges that an operator lets a node key join as an SN.
func (a *auditor) admission(x ledger.Admission) {
	if a.admitted == nil {
		a.bad("kind", "SNs of this swarm join without an operator's word")
		a.admitted = newAdmitted()
	}
	if _, banned := a.banned[x.PeerID]; banned {
		a.bad("peer_id", "%q is banned", x.PeerID)
	}
	a.admitted.admit(x.Node, x.PeerID)
	r := &swarmv1.AdmitNodeRequest{}
	if !a.asked(x.Order, r) {
		return
	}
	if r.GetName() != x.Node || r.GetPeerId() != x.PeerID {
		a.bad("peer_id", "the operator asked to admit %q with node key %q", r.GetName(), r.GetPeerId())
	}
	if x.By != x.Order.By {
		a.bad("by", "%s signed it", x.Order.By)
	}
}

// mayJoin holds the registration of an SN to its admission, if SNs need one.
func (a *auditor) mayJoin(r ledger.Registration) {
	if a.admitted != nil && r.Role == string(identity.RoleSN) && a.admitted.names[r.PeerID] != r.Node {
		a.bad("peer_id", "no operator has admitted SN %s with node key %s", r.Node, r.PeerID)
	}
}
