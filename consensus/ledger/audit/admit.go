package audit

import (
	"bytes"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/claim"
)

// admitted are the node keys that may join as SNs: one for a name, one name for a key. ids are the SPIFFE IDs that those with an invitation
// must bear, by key.
type admitted struct{ keys, names, ids map[string]string }

func newAdmitted() *admitted {
	return &admitted{map[string]string{}, map[string]string{}, map[string]string{}}
}

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
	delete(a.ids, peerID)
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

// admission judges that an operator lets a node key join as an SN, or that the key has claimed an invitation.
func (m *members) admission(x ledger.Admission) {
	if m.admitted == nil {
		m.bad("kind", "SNs of this swarm join without an operator's word")
		m.admitted = newAdmitted()
	}
	if _, banned := m.banned[x.PeerID]; banned {
		m.bad("peer_id", "%q is banned", x.PeerID)
	}
	m.admitted.admit(x.Node, x.PeerID)
	if x.Invitation != 0 {
		m.claimed(x)
		return
	}
	delete(m.invited, x.Node)
	if len(x.Claim) > 0 {
		m.bad("claim", "there is no invitation that it could claim")
	}
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

// invitation judges that an operator lets the first node key that claims it join as an SN.
func (m *members) invitation(x ledger.Invitation) {
	if m.admitted == nil {
		m.bad("kind", "SNs of this swarm join without an operator's word")
	}
	if m.invitations++; x.Number != m.invitations {
		m.bad("number", "%d is due, not %d", m.invitations, x.Number)
	}
	for _, other := range m.invited {
		if bytes.Equal(other.Key, x.Key) && m.atMS < other.ExpiresMS { // the state forgets those that have ended
			m.bad("key", "it is that of invitation %d", other.Number)
		}
	}
	if x.ExpiresMS <= m.atMS {
		m.bad("expires_ms", "it had ended when it was made")
	}
	m.invited[x.Node] = x
	r := &swarmv1.InviteNodeRequest{}
	if !m.orders.asked(x.Order, r) {
		return
	}
	if r.GetName() != x.Node || r.GetSpiffeId() != x.SPIFFEID {
		m.bad("node", "the operator asked to invite %q, with SPIFFE ID %q", r.GetName(), r.GetSpiffeId())
	}
	if !bytes.Equal(r.GetKey(), x.Key) {
		m.bad("key", "the operator asked for another one")
	}
	if r.GetExpiresUnixMs() != x.ExpiresMS {
		m.bad("expires_ms", "the operator asked for %d", r.GetExpiresUnixMs())
	}
	if x.By != x.Order.By {
		m.bad("by", "%s signed it", x.Order.By)
	}
}

// claimed judges that a node key has claimed an invitation, which is good for one.
func (m *members) claimed(x ledger.Admission) {
	i, open := m.invited[x.Node]
	if !open || i.Number != x.Invitation {
		m.bad("invitation", "no invitation %d of SN %s is open", x.Invitation, x.Node)
		return
	}
	delete(m.invited, x.Node)
	m.admitted.ids[x.PeerID] = i.SPIFFEID
	if x.Order != nil {
		m.bad("order", "who was invited claims it without one")
	}
	if x.By != i.By {
		m.bad("by", "%s made the invitation", i.By)
	}
	if m.atMS >= i.ExpiresMS {
		m.bad("invitation", "it ended at %d, and was claimed at %d", i.ExpiresMS, m.atMS)
	}
	if !m.opts.Unsigned && !claim.Verify(i.Key, m.report.SwarmID, x.Node, x.PeerID, x.Claim) {
		m.bad("claim", "the key of invitation %d did not sign that it admits node key %s", i.Number, x.PeerID)
	}
}

// takenBack judges that an invitation goes with what is forgotten.
func (m *members) takenBack(f ledger.Forget) {
	if f.Invitation == 0 {
		return
	}
	if i, open := m.invited[f.Node]; !open || i.Number != f.Invitation {
		m.bad("invitation", "no invitation %d of SN %s is open", f.Invitation, f.Node)
	}
	delete(m.invited, f.Node)
}

// mayJoin holds the registration of an SN to its admission, if SNs need one.
func (m *members) mayJoin(r ledger.Registration) {
	if m.admitted == nil || r.Role != string(identity.RoleSN) {
		return
	}
	if m.admitted.names[r.PeerID] != r.Node {
		m.bad("peer_id", "no operator has admitted SN %s with node key %s", r.Node, r.PeerID)
	}
	if id := m.admitted.ids[r.PeerID]; id != "" && id != r.SPIFFEID {
		m.bad("spiffe_id", "the invitation of SN %s is for %s", r.Node, id)
	}
}
