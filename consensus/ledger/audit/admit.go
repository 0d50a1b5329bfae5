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
func (m *members) founded(s ledger.Swarm) {
	if s.Admit == "" && len(s.Admitted) == 0 {
		return
	}
	if s.Admit != "operator" {
		m.bad("admit", "nobody knows the policy %q", s.Admit)
	}
	m.admitted = newAdmitted()
	m.orders.first = m.seq // whoever knows admission signs orders
	for _, x := range s.Admitted {
		m.admitted.admit(x.Node, x.PeerID)
	}
}

// admission judges that an operator lets a node key join as an SN.
func (m *members) admission(x ledger.Admission) {
	if m.admitted == nil {
		m.bad("kind", "SNs of this swarm join without an operator's word")
		m.admitted = newAdmitted()
	}
	if _, banned := m.banned[x.PeerID]; banned {
		m.bad("peer_id", "%q is banned", x.PeerID)
	}
	m.admitted.admit(x.Node, x.PeerID)
	r := &swarmv1.AdmitNodeRequest{}
	if !m.orders.asked(x.Order, r) {
		return
	}
	if r.GetName() != x.Node || r.GetPeerId() != x.PeerID {
		m.bad("peer_id", "the operator asked to admit %q with node key %q", r.GetName(), r.GetPeerId())
	}
	if x.By != x.Order.By {
		m.bad("by", "%s signed it", x.Order.By)
	}
}

// mayJoin holds the registration of an SN to its admission, if SNs need one.
func (m *members) mayJoin(r ledger.Registration) {
	if m.admitted != nil && r.Role == string(identity.RoleSN) && m.admitted.names[r.PeerID] != r.Node {
		m.bad("peer_id", "no operator has admitted SN %s with node key %s", r.Node, r.PeerID)
	}
}
