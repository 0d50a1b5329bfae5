package client

import (
	"context"
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
// registered itself, whatever the SN says: what is on it alone needs no proof. It changes the sites.
func (h Host) prove(ctx context.Context, sites []task.Site) error {
	own, at := h.registrar.self()
	addresses := map[string]string{}
	var nodes []string
	for i, s := range sites {
		if s.Node == own {
			sites[i].Address = onwire.Address(at)
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
			if err := h.proveAddress(name, addresses[name], proofs[name]); err != nil {
				return fmt.Errorf("host %s: %w", name, err)
			}
		}
	}
	return nil
}

// self is our own node's name and where it says that it is reached; empty: none has registered.
func (r *registrar) self() (name, host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.speaker == nil {
		return "", ""
	}
	return r.speaker.Node.Name, r.speaker.Node.Host
}

// proveAddress says why it is not proven that a host is at an address.
func (h Host) proveAddress(name, address string, p *swarmv1.NodeProof) error {
	if len(p.GetAddressSignature()) == 0 {
		return errors.New("it has not signed its address: bring its SWOP, and the SNs, to this version, and start it anew")
	}
	id, leaf, err := identity.VerifySVID(p.GetChain(), h.cfg.Source, h.cfg.Domains, identity.RoleSWOP)
	if err != nil {
		return fmt.Errorf("its address was signed by no SVID that this host accepts now: %w", err)
	}
	if !id.MaySpeakFor(name) {
		return fmt.Errorf("its address was signed by %s, which has another name", id)
	}
	if err := identity.VerifySVIDSignature(leaf, identity.AddressMessage(h.PinnedSwarmID(), name, address), p.GetAddressSignature()); err != nil {
		return fmt.Errorf("%s has not signed for the address %.80q: %w", id, address, err)
	}
	return nil
}
