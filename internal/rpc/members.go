package rpc

import (
	"fmt"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/assign"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task/onwire"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/rpc/tasks"
)

// Hosts is what the SN that leads remembers of hosts of tasks. *assign.Scheduler fulfils it.
type Hosts interface {
	// Record takes what a host says of its members, which replaces what it said before. It does not block.
	Record(r assign.HostReport)
}

var _ Hosts = (*assign.Scheduler)(nil)

// memberSigned reports whether a signature that is for the ledger is good, and that of an address for other hosts. Hosts of before have none.
func (s *sessionService) memberSigned(swarmID string, node *state.Node, x *swarmv1.MemberReport) bool {
	if told := x.GetAddressSignature(); len(told) > 0 && !s.seals.Valid(node.PeerID, onwire.MemberAddressMessage(swarmID, node.Name, x), told) {
		return false
	}
	return len(x.GetSignature()) == 0 || s.seals.Valid(node.PeerID, onwire.MemberMessage(swarmID, node.Name, x), x.GetSignature())
}

// takeMembers records what a host says of its members. What another SN has passed on counts only if the host signed it.
func (s *sessionService) takeMembers(view *state.State, node *state.Node, m *swarmv1.ReportRequest, by bringer) error {
	members, err := tasks.Members(node, m)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBadRequest, err)
	case by.passed && len(members) > 0 && !s.seals.Valid(node.PeerID, onwire.MembersMessage(view.SwarmID, node.Name, m.GetMembers()), m.GetMembersSignature()):
		return fmt.Errorf("%w: node %s did not sign what is reported of its members", ErrSignature, node.Name)
	case slices.ContainsFunc(m.GetMembers(), func(x *swarmv1.MemberReport) bool { return !s.memberSigned(view.SwarmID, node, x) }):
		return fmt.Errorf("%w: node %s did not sign what the ledger is to have of a member", ErrSignature, node.Name)
	case node.Role == naming.RoleSWOP && s.cfg.Hosts != nil:
		s.cfg.Hosts.Record(assign.HostReport{Node: node.Name, Members: members})
	}
	return nil
}
