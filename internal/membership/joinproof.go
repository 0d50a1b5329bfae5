package membership

import (
	"fmt"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/claim"
)

// Prove implements consensus.Prover.
func (s *Member) Prove(r consensus.JoinRequest) (consensus.JoinRequest, error) {
	register, err := s.registration()
	if err != nil {
		return r, err
	}
	r.Register = register
	if key := claim.KeyOf(s.cfg.Invitation); key != nil {
		r.Claim = &consensus.Claim{Key: key, Signature: claim.Sign(s.cfg.Invitation, r.SwarmID, r.Name, s.cfg.PeerID)}
	}
	return signJoin(s.cfg.Source, s.cfg.Key, r)
}

// Check implements consensus.Prover.
func (s *Member) Check(swarmID string, r consensus.JoinRequest) (consensus.Peer, error) {
	return checkJoin(s.cfg.Source, s.cfg.Domains, swarmID, r)
}

// signJoin signs all that a join asks for, with the node key and the SVID's.
func signJoin(source identity.Source, key crypto.PrivKey, r consensus.JoinRequest) (consensus.JoinRequest, error) {
	msg, err := joinMessage(r)
	if err != nil {
		return r, err
	}
	svid, err := source.GetX509SVID()
	if err != nil {
		return r, fmt.Errorf("prove this node's join: %w", err)
	}
	if r.NodeSignature, err = key.Sign(msg); err != nil {
		return r, fmt.Errorf("prove this node's join: %w", err)
	}
	if r.SVIDSignature, err = identity.SignWithSVID(svid, msg); err != nil {
		return r, fmt.Errorf("prove this node's join: %w", err)
	}
	return r, nil
}

// checkJoin returns who made a join: the node key, and the SPIFFE ID of an SVID that is of the role sn and that this SN's own
// bundle accepts. Both have signed the leader's nonce, so nobody who passes a join on can make one, or change one.
func checkJoin(source identity.Source, domains identity.Domains, swarmID string, r consensus.JoinRequest) (consensus.Peer, error) {
	if r.SwarmID != swarmID {
		return consensus.Peer{}, fmt.Errorf("it is for swarm %.40q, this is %s", r.SwarmID, swarmID)
	}
	leaf, err := checkProof(source, swarmID, r.Register)
	if err != nil {
		return consensus.Peer{}, err
	}
	id, err := identity.CertID(source, leaf)
	if err != nil {
		return consensus.Peer{}, err
	}
	who, err := domains.Check(id, identity.RoleSN)
	if err != nil {
		return consensus.Peer{}, err
	}
	msg, err := joinMessage(r)
	if err != nil {
		return consensus.Peer{}, err
	}
	node := r.Register.Node
	if err := identity.VerifyNodeSignature(node.PeerID, msg, r.NodeSignature); err != nil {
		return consensus.Peer{}, err
	}
	if err := identity.VerifySVIDSignature(leaf, msg, r.SVIDSignature); err != nil {
		return consensus.Peer{}, err
	}
	return consensus.Peer{PeerID: node.PeerID, Role: string(who.Role()), SPIFFEID: who.String(), NodeName: who.NodeName(), SwarmID: r.SwarmID}, nil
}

func joinMessage(r consensus.JoinRequest) ([]byte, error) {
	registration, err := state.EncodeCommand(r.Register)
	if err != nil {
		return nil, fmt.Errorf("sign a join: %w", err)
	}
	return identity.JoinMessage(r.Nonce, r.SwarmID, r.Name, r.Address, registration), nil
}
