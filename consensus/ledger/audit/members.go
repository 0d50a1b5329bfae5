package audit

import (
	"maps"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/text"
)

// members are the nodes of the swarm, and who may become one.
type members struct {
	*findings
	authorities *authorities
	orders      *orders
	nodes       map[string]*ledger.Registration
	hosts       map[hostKey]bool             // of tasks, that have registered at any time
	banned      map[string]string            // names by peer ID
	admitted    *admitted                    // nil: SNs join without an operator's word
	invitations uint64                       // so far
	invited     map[string]ledger.Invitation // by node: those that were neither claimed nor taken back
}

// hostKey is a host of tasks as its registration has it.
type hostKey struct{ node, peerID string }

func (m *members) registration(r ledger.Registration) {
	m.report.Registrations++
	if known := m.nodes[r.Node]; known != nil && (known.PeerID != r.PeerID || known.Role != r.Role) {
		m.bad("peer_id", "the name %s belongs to node key %s of role %s, and was not freed", r.Node, known.PeerID, known.Role)
	}
	m.nodes[r.Node] = &r
	if r.Role == string(identity.RoleSWOP) {
		m.hosts[hostKey{r.Node, r.PeerID}] = true
	}
	m.mayJoin(r)
	id, err := identity.ParseIDString(r.SPIFFEID)
	if err != nil {
		m.bad("spiffe_id", "%v", err)
		return
	}
	if string(id.Role()) != r.Role {
		m.bad("role", "%s may not bear role %q", id, r.Role)
	}
	if name := id.NodeName(); name != "" && name != r.Node {
		m.bad("node", "%s may not bear name %q", id, r.Node)
	}
	if m.opts.Unsigned {
		return
	}
	chain, err := identity.ParseChain(r.Chain)
	if err != nil {
		m.bad("chain", "%v", err)
		return
	}
	proven, err := m.authorities.verifyChain(chain, r.Role, r.SPIFFEID)
	switch {
	case err != nil:
		m.bad("chain", "not an SVID by the authorities of its time (at_ms %d): %v", m.atMS, err)
	case proven != r.SPIFFEID:
		m.bad("spiffe_id", "the SVID is of %s, not of %s", proven, r.SPIFFEID)
	}
	if identity.VerifySVIDSignature(chain[0], identity.OwnershipMessage(m.report.SwarmID, r.Node, r.PeerID), r.Signature) != nil {
		m.bad("signature", "the SVID's key did not sign that swarm %s, node %s and node key %s belong to it", m.report.SwarmID, r.Node, r.PeerID)
	}
}

func (m *members) forget(f ledger.Forget) {
	if known := m.nodes[f.Node]; known != nil && known.PeerID != f.PeerID {
		m.bad("peer_id", "node %s has node key %s, not %s", f.Node, known.PeerID, f.PeerID)
	}
	delete(m.nodes, f.Node)
	m.admitted.dismiss(f.PeerID)
	m.takenBack(f)
	if r := (&swarmv1.ForgetNodeRequest{}); m.orders.asked(f.Order, r) && r.GetName() != f.Node {
		m.bad("node", "the operator asked to forget %q", r.GetName())
	}
}

func (m *members) ban(b ledger.Ban) {
	if _, banned := m.banned[b.PeerID]; b.PeerID == "" || banned {
		m.bad("peer_id", "%q is banned already", b.PeerID)
	}
	m.banned[b.PeerID] = b.Node
	m.admitted.dismiss(b.PeerID)
	known := m.nodes[b.Node]
	if known != nil && known.PeerID != b.PeerID {
		m.bad("peer_id", "node %s has node key %s, not %s", b.Node, known.PeerID, b.PeerID)
	}
	r := &swarmv1.BanNodeRequest{}
	if !m.orders.asked(b.Order, r) {
		return
	}
	switch {
	case r.GetName() != b.PeerID && r.GetName() != b.Node:
		m.bad("node", "the operator asked to ban %q", r.GetName())
	case text.Printable(r.GetReason(), ' ') != b.Reason:
		m.bad("reason", "the operator gave %q", r.GetReason())
	case b.By != b.Order.By:
		m.bad("by", "%s signed it", b.Order.By)
	}
}

func (m *members) unban(u ledger.Unban) {
	name, banned := m.banned[u.PeerID]
	if !banned && !m.report.Late {
		m.bad("peer_id", "%q is not banned", u.PeerID)
	}
	delete(m.banned, u.PeerID)
	r := &swarmv1.UnbanNodeRequest{}
	if !m.orders.asked(u.Order, r) || r.GetName() == u.PeerID || r.GetName() != "" && r.GetName() == name {
		return
	}
	if known := m.nodes[r.GetName()]; known == nil || known.PeerID != u.PeerID {
		m.bad("peer_id", "the operator asked to lift the ban of %q", r.GetName())
	}
}

// refounded leaves of the SNs only the one with which the group of SNs was founded anew.
func (m *members) refounded(r ledger.Recovery) {
	maps.DeleteFunc(m.nodes, func(_ string, n *ledger.Registration) bool {
		return n.Role == string(identity.RoleSN) && (n.Node != r.Node || n.PeerID != r.PeerID)
	})
	if m.admitted != nil {
		m.admitted = newAdmitted()
		m.admitted.admit(r.Node, r.PeerID)
	}
	clear(m.invited)
}
