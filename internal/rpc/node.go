package rpc

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/internal/rpc/nodehealth"

	"connectrpc.com/connect"
	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/nonce"
	"github.com/swarmd/swarmd/internal/rpc/messages"
)

const (
	tokenBytes = 32
	// Node keys are Ed25519: a marshalled public key has 36 bytes. The bounds leave room, not more.
	maxKeyBytes       = 512
	maxSignatureBytes = 1024
)

// nodeService registers nodes, lists them, and does to them what operators ask for.
type nodeService struct {
	*shared

	orders  *orders
	healths *nodehealth.Memory
	nonces  *nonce.Table // of registrations, by the SN that passes them on or else by caller
}

// Challenge gives a nonce for one registration, or for one order of an operator or SL.
func (s *nodeService) Challenge(ctx context.Context, req *connect.Request[swarmv1.ChallengeRequest]) (*connect.Response[swarmv1.ChallengeResponse], error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case caller.ID.Role() == identity.RoleSWCI, caller.ID.Role() == identity.RoleSL && req.Msg.GetOrder():
		return connect.NewResponse(s.orders.challengeOperator(caller)), nil
	case caller.via != "":
		return connect.NewResponse(&swarmv1.ChallengeResponse{Nonce: s.nonces.IssueFor(caller.via, caller.key())}), nil
	}
	return connect.NewResponse(&swarmv1.ChallengeResponse{Nonce: s.nonces.Issue(caller.key())}), nil
}

// Register checks everything that proves who the node is, then commits it.
func (s *nodeService) Register(ctx context.Context, req *connect.Request[swarmv1.RegisterRequest]) (*connect.Response[swarmv1.RegisterResponse], error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	node, err := s.prove(caller, req.Msg)
	if err != nil {
		return nil, err
	}
	old := s.cfg.Core.View().Nodes[node.Name]
	known := old != nil && old.PeerID == node.PeerID && old.SPIFFEID == node.SPIFFEID
	if err := s.rates.TakeRegistration(caller.ID, node.PeerID, known); err != nil {
		return nil, err
	}
	token := make([]byte, tokenBytes)
	_, _ = rand.Read(token) // never fails, by its contract
	register := state.RegisterNode{
		Node: node, TokenHash: tokenHash(token), AtMS: s.nowMS(), Signature: req.Msg.GetSvidSignature(),
		KeepProof: node.Role == naming.RoleSL || len(req.Msg.GetAddressSignature()) > 0, Address: req.Msg.GetAddressSignature(),
	}
	for _, cert := range caller.chain() {
		register.Chain = append(register.Chain, cert.Raw)
	}
	if _, err := s.propose(ctx, register); err != nil {
		return nil, err
	}
	view := s.cfg.Core.View()
	s.cfg.DialBack.Registered(view, node, caller.here(view, s.cfg.Name))
	s.cfg.Log.InfoContext(ctx, "registered node", "node", node.Name, "role", node.Role, "caller", caller.ID.String(), "peer_id", node.PeerID)
	return connect.NewResponse(&swarmv1.RegisterResponse{SwarmId: view.SwarmID, Token: token, Sns: s.nodes(view, naming.RoleSN)}), nil
}

// prove returns the node that a registration proves: the nonce is ours and fresh, the node key signs nonce and
// connection, the SVID's key signs for the node key, and the SVID may bear this role and name.
func (s *nodeService) prove(caller Caller, m *swarmv1.RegisterRequest) (state.Node, error) {
	if len(m.GetNodePublicKey()) > maxKeyBytes || len(m.GetNodeSignature()) > maxSignatureBytes || len(m.GetSvidSignature()) > maxSignatureBytes || len(m.GetAddressSignature()) > maxSignatureBytes {
		return state.Node{}, fmt.Errorf("%w: key or signature too long", ErrBadRequest)
	}
	if !s.nonces.Redeem(cmp.Or(caller.via, caller.key()), m.GetNonce()) {
		return state.Node{}, ErrNonceRefused
	}
	node, err := nodeFromProto(m.GetNode())
	if err != nil {
		return state.Node{}, err
	}
	if err := mayBear(caller.ID, node); err != nil {
		return state.Node{}, err
	}
	if caller.Leaf == nil || caller.Exporter == nil {
		return state.Node{}, fmt.Errorf("%w: this connection can't be signed for", ErrNoCertificate)
	}
	key, err := p2pcrypto.UnmarshalPublicKey(m.GetNodePublicKey())
	if err != nil {
		return state.Node{}, fmt.Errorf("%w: node key: %w", ErrBadRequest, err)
	}
	if id, err := peer.IDFromPublicKey(key); err != nil || key.Type() != p2pcrypto.Ed25519 || id.String() != node.PeerID {
		return state.Node{}, ErrPeerID
	}
	exporter, err := caller.Exporter()
	if err != nil {
		return state.Node{}, fmt.Errorf("export keying material: %w", err)
	}
	swarm := s.cfg.Core.View().SwarmID
	msg := identity.RegistrationMessage(m.GetNonce(), exporter, swarm, node.Name, identity.Role(node.Role), node.PeerID)
	if err := identity.VerifyNodeSignature(node.PeerID, msg, m.GetNodeSignature()); err != nil {
		return state.Node{}, fmt.Errorf("%w: not the node key's over this connection", ErrSignature)
	}
	if err := identity.VerifySVIDSignature(caller.Leaf, identity.OwnershipMessage(swarm, node.Name, node.PeerID), m.GetSvidSignature()); err != nil {
		return state.Node{}, fmt.Errorf("%w: not the SVID key's for this node key", ErrSignature)
	}
	if signed := m.GetAddressSignature(); len(signed) > 0 {
		if err := identity.VerifySVIDSignature(caller.Leaf, identity.AddressMessage(swarm, node.Name, node.Host), signed); err != nil || node.Role != naming.RoleSWOP {
			return state.Node{}, fmt.Errorf("%w: not the SVID key's for this address of a SWOP", ErrSignature)
		}
	}
	node.SPIFFEID = caller.ID.String()
	return node, nil
}

// mayBear holds a node to the role and, if there is one, the name in its SVID.
func mayBear(id identity.ID, node state.Node) error {
	if string(id.Role()) != node.Role {
		return fmt.Errorf("%w: %s can't register as %.16q", ErrRoleMismatch, id, node.Role)
	}
	if name := id.NodeName(); name != "" && name != node.Name {
		return fmt.Errorf("%w: %s can't register as %.64q", ErrNameMismatch, id, node.Name)
	}
	return nil
}

// ListNodes returns all nodes, sorted by role and name, all bans, and the SNs that have not joined.
func (s *nodeService) ListNodes(ctx context.Context, _ *connect.Request[swarmv1.ListNodesRequest]) (*connect.Response[swarmv1.ListNodesResponse], error) {
	view := s.cfg.Core.View()
	known := s.askNodes(ctx, view)
	out := &swarmv1.ListNodesResponse{Nodes: s.nodes(view, ""), Bans: messages.Bans(view), Candidates: messages.Candidates(view, known.asking), NoQuorum: messages.NoQuorum(s.cfg.Name, s.lost(ctx))}
	out.Invited = messages.Invited(view, s.nowMS())
	ranks := task.RanksBeside(view.Tasks)
	for _, n := range out.Nodes {
		n.Sn, n.Use, n.DialBack, n.Links, n.Ranks = known.via[n.Name], messages.Use(view.UseOf(n.Name)), known.dialled[n.Name], known.links[n.Name], ranks[n.Name]
	}
	return connect.NewResponse(out), nil
}

// ForgetNode frees a dead node's name.
func (s *nodeService) ForgetNode(ctx context.Context, req *connect.Request[swarmv1.ForgetNodeRequest]) (*connect.Response[swarmv1.ForgetNodeResponse], error) {
	if _, err := s.orders.order(ctx, req.Msg); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.ForgetNodeResponse{}), nil
}

// LeaveNode takes a node out of the swarm at its own request. With a token that is not the node's newest it changes nothing: a later
// run of the node has registered since.
func (s *nodeService) LeaveNode(ctx context.Context, req *connect.Request[swarmv1.LeaveNodeRequest]) (*connect.Response[swarmv1.LeaveNodeResponse], error) {
	who := spokesmanFrom(ctx)
	reason := strings.TrimSpace(spoken(req.Msg.GetReason(), state.MaxLeaveReason))
	if reason == "" {
		reason = "it gave no reason"
	}
	res, err := s.proposeFor(ctx, who.node, state.LeaveNode{Node: who.node, TokenHash: who.tokenHash, Reason: reason, AtMS: s.nowMS()})
	if err != nil {
		return nil, err
	}
	if res.Changed {
		s.cfg.Log.InfoContext(ctx, "node left", "node", who.node, "why", reason)
	}
	return connect.NewResponse(&swarmv1.LeaveNodeResponse{}), nil
}
