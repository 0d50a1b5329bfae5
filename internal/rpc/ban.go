package rpc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/libp2p/go-libp2p/core/peer"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/rpc/messages"
)

// BanNode shuts a node key out: that of a registered node, or one that is given as peer ID.
func (s *nodeService) BanNode(ctx context.Context, req *connect.Request[swarmv1.BanNodeRequest]) (*connect.Response[swarmv1.BanNodeResponse], error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	name, reason := req.Msg.GetName(), req.Msg.GetReason()
	if len(reason) > state.MaxBanReason {
		return nil, fmt.Errorf("%w: reason of %d bytes, at most %d", ErrBadRequest, len(reason), state.MaxBanReason)
	}
	peerID, err := toBan(s.cfg.Core.View(), name)
	if err != nil {
		return nil, err
	}
	if _, err := s.orders.orderBy(ctx, req.Msg, s.proposeBan); err != nil {
		return nil, err
	}
	out := &swarmv1.Ban{}
	if b := s.cfg.Core.View().Banned(peerID); b != nil { // else it was lifted at once
		out = messages.Ban(b)
	}
	s.cfg.Log.WarnContext(ctx, "banned node", "node", out.GetName(), "peer_id", peerID, "caller", caller.ID.String(), "why", out.GetReason())
	return connect.NewResponse(&swarmv1.BanNodeResponse{Ban: out}), nil
}

// proposeBan is propose for a ban.
func (s *nodeService) proposeBan(ctx context.Context, c state.Command) (state.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	ban, ok := c.(state.BanNode)
	if !ok {
		return state.Result{}, fmt.Errorf("%w: it bans nobody", ErrBadRequest)
	}
	// The SN that the operator speaks to would be cut off before it can tell what came of it.
	view, asked := s.cfg.Core.View(), via(ctx)
	if n := view.Nodes[s.cfg.Name]; asked == "" && n != nil {
		asked = n.PeerID
	}
	if ban.PeerID == asked {
		if _, _, err := view.Apply(ban); err != nil {
			return state.Result{}, err
		}
		return state.Result{}, ErrElsewhere
	}
	return s.cfg.Core.Propose(ctx, ban)
}

// UnbanNode lets a node key in again.
func (s *nodeService) UnbanNode(ctx context.Context, req *connect.Request[swarmv1.UnbanNodeRequest]) (*connect.Response[swarmv1.UnbanNodeResponse], error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	peerID, _ := toUnban(s.cfg.Core.View(), req.Msg.GetName()) // For the log; why there is none the order says, or has done.
	res, err := s.orders.order(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	if res.Changed {
		s.cfg.Log.WarnContext(ctx, "lifted ban", "node", req.Msg.GetName(), "peer_id", peerID, "caller", caller.ID.String())
	}
	return connect.NewResponse(&swarmv1.UnbanNodeResponse{}), nil
}

// toBan finds the node key that is meant: a peer ID itself, that of a registered node, or that of a ban which stands already.
// A peer ID comes first: else a node could take another's as its name, and be banned in its place.
func toBan(view *state.State, name string) (string, error) {
	if id, ok := asKey(name); ok {
		return id, nil
	}
	if n := view.Nodes[name]; n != nil {
		return n.PeerID, nil
	}
	if ids := bansOf(view, name); len(ids) == 1 {
		return ids[0], nil
	}
	return "", nobody(name)
}

// toUnban finds the ban that is meant, as toBan does. A name may have belonged to more than one key that was banned.
func toUnban(view *state.State, name string) (string, error) {
	if id, ok := asKey(name); ok {
		return id, nil
	}
	n := view.Nodes[name]
	if n != nil && view.Banned(n.PeerID) != nil {
		return n.PeerID, nil
	}
	switch ids := bansOf(view, name); {
	case len(ids) == 1:
		return ids[0], nil
	case len(ids) > 1:
		return "", fmt.Errorf("%w: %d banned node keys were called %s; give the peer ID of one: %s", ErrBadRequest, len(ids), name, strings.Join(ids[:min(len(ids), 8)], ", "))
	case n != nil:
		return n.PeerID, nil
	}
	return "", nobody(name)
}

func bansOf(view *state.State, name string) []string {
	var ids []string
	for _, id := range view.BannedPeers() {
		if id == name || name != "" && view.Banned(id).Name == name {
			ids = append(ids, id)
		}
	}
	return ids
}

// asKey reads a peer ID.
func asKey(name string) (string, bool) {
	if len(name) > maxShortText {
		return "", false
	}
	id, err := peer.Decode(name)
	return id.String(), err == nil
}

func nobody(name string) error {
	return &state.Error{
		Reason: state.ReasonNodeUnknown, Message: fmt.Sprintf("no node %.64q, and no such peer ID", name), Remedy: "see: swarmctl list nodes",
	}
}

// tellBans adds to the answer to a heartbeat who is banned, all of them if the node has not seen this list yet.
func tellBans(view *state.State, seen string, res *swarmv1.ReportResponse) {
	ids := view.BannedPeers()
	res.BansDigest = bansDigest(ids)
	if res.BansDigest != seen {
		res.BannedPeerIds = ids
	}
}

// bansDigest names a list of bans; that of none is empty, as what a node has seen at its start.
func bansDigest(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(ids, "\n")))
	return hex.EncodeToString(sum[:])
}
