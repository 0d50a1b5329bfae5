package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
	"github.com/swarmd/swarmd/identity"
)

// proofsAtOnce is how many nodes' proofs one call asks for.
const proofsAtOnce = 32

// prove holds addresses to what the hosts that have them have signed, each with its newest SVID: no SN makes one up. Our own node is where it has
// registered itself, whatever the SN says, and what its members have of their own our node key has signed: that needs no proof by an SVID. It changes the
// sites.
func (h Host) prove(ctx context.Context, sites []task.Site, a *swarmv1.Assignment) error {
	own := h.registrar.self()
	addresses := map[string]string{}
	var nodes []string
	for i, s := range sites {
		if s.Node == own.Node.Name {
			sites[i].Address = onwire.Address(own.Node.Host)
			continue
		}
		before, known := addresses[s.Node]
		if known && before != s.Address {
			return fmt.Errorf("the SN says that host %s is at %.80q and at %.80q", s.Node, before, s.Address)
		}
		if addresses[s.Node] = s.Address; !known {
			nodes = append(nodes, s.Node)
		}
	}
	if err := h.proveOwn(own, a); err != nil {
		return fmt.Errorf("host %s: %w", own.Node.Name, err)
	}
	for asked := range slices.Chunk(nodes, proofsAtOnce) {
		res, err := call(ctx, h.Client, callOptions{asNode: true}, swarmv1connect.NodeServiceClient.GetProofs, &swarmv1.GetProofsRequest{Names: asked})
		if err != nil {
			return err
		}
		proofs := map[string]*swarmv1.NodeProof{}
		for _, p := range res.GetProofs()[:min(len(res.GetProofs()), proofsAtOnce)] {
			proofs[p.GetName()] = p
		}
		for _, name := range asked {
			if err := h.proveHost(name, addresses[name], proofs[name], a); err != nil {
				return fmt.Errorf("host %s: %w", name, err)
			}
		}
	}
	return nil
}

// self is what our own node has registered with; the zero one: none has.
func (r *registrar) self() Registration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.speaker == nil {
		return Registration{}
	}
	return *r.speaker
}

// proveOwn says why it is not proven that the members of our own node have the addresses of their own that the SN says.
func (h Host) proveOwn(own Registration, a *swarmv1.Assignment) error {
	for _, m := range withOwn(a, own.Node.Name) {
		id, err := identity.PeerID(own.Key)
		if err != nil {
			return err
		}
		if err := h.proveMember(m, id.String(), a); err != nil {
			return err
		}
	}
	return nil
}

// proveHost says why it is not proven that a host is at an address, and its members at theirs: its SVID has signed for the one, and for the node key that
// has for the others.
func (h Host) proveHost(name, address string, p *swarmv1.NodeProof, a *swarmv1.Assignment) error {
	leaf, err := h.proveAddress(name, address, p)
	if err != nil {
		return err
	}
	for _, m := range withOwn(a, name) {
		if err := identity.VerifySVIDSignature(leaf, identity.OwnershipMessage(h.PinnedSwarmID(), name, m.GetPeerId()), p.GetSvidSignature()); err != nil {
			return fmt.Errorf("member %d: its host has not signed for the node key %.80q: %w", m.GetIndex(), m.GetPeerId(), err)
		}
		if err := h.proveMember(m, m.GetPeerId(), a); err != nil {
			return err
		}
	}
	return nil
}

// withOwn are the members on a node that have addresses of their own.
func withOwn(a *swarmv1.Assignment, node string) (all []*swarmv1.AssignmentMember) {
	for _, m := range a.GetMembers() {
		if m.GetNode() == node && m.GetOwnAddress() != "" {
			all = append(all, m)
		}
	}
	return all
}

// proveMember says why it is not proven that a node key has signed for the address that a member has of its own.
func (h Host) proveMember(m *swarmv1.AssignmentMember, peerID string, a *swarmv1.Assignment) error {
	told := identity.MemberAddressMessage(h.PinnedSwarmID(), m.GetNode(), a.GetId(), a.GetEpoch(), m.GetIndex(), m.GetOwnAddress())
	if err := identity.VerifyNodeSignature(peerID, told, m.GetOwnAddressSignature()); err != nil {
		return fmt.Errorf("member %d: its host has not signed for the address %s: %w", m.GetIndex(), m.GetOwnAddress(), err)
	}
	return nil
}

// proveAddress says why it is not proven that a host is at an address, and returns the SVID that proves it.
func (h Host) proveAddress(name, address string, p *swarmv1.NodeProof) (*x509.Certificate, error) {
	if len(p.GetAddressSignature()) == 0 {
		return nil, errors.New("it has not signed its address: bring its SWOP, and the SNs, to this version, and start it anew")
	}
	id, leaf, err := identity.VerifySVID(p.GetChain(), h.cfg.Source, h.cfg.Domains, identity.RoleSWOP)
	if err != nil {
		return nil, fmt.Errorf("its address was signed by no SVID that this host accepts now: %w", err)
	}
	if !id.MaySpeakFor(name) {
		return nil, fmt.Errorf("its address was signed by %s, which has another name", id)
	}
	if err := identity.VerifySVIDSignature(leaf, identity.AddressMessage(h.PinnedSwarmID(), name, address), p.GetAddressSignature()); err != nil {
		return nil, fmt.Errorf("%s has not signed for the address %.80q: %w", id, address, err)
	}
	return leaf, nil
}
