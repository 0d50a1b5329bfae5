package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/internal/rpc/nodehealth"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/rpc/messages"
)

// swarmService tells who and how well the SNs and nodes are.
type swarmService struct {
	*shared

	healths *nodehealth.Memory
	version string // of this binary
}

// GetSwarm tells which swarm this is, its SNs and its leader.
func (s *swarmService) GetSwarm(context.Context, *connect.Request[swarmv1.GetSwarmRequest]) (*connect.Response[swarmv1.GetSwarmResponse], error) {
	view := s.cfg.Core.View()
	leader, _, _ := s.cfg.Core.Leader()
	out := &swarmv1.GetSwarmResponse{SwarmId: view.SwarmID, Sns: s.nodes(view, naming.RoleSN), Leader: leader, Epoch: pinOf(view).String(), Version: s.version, Admit: view.Admit}
	for _, r := range view.Recoveries {
		raw, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("encode recovery: %w", err)
		}
		out.Recoveries = append(out.Recoveries, raw)
	}
	return connect.NewResponse(out), nil
}

// pinOf is the swarm and the epoch of its group of SNs.
func pinOf(view *state.State) epoch.Pin { return epoch.Of(view.SwarmID, view.Recoveries) }

// nodes shows the nodes of a role that are not banned, or all for "", sorted by role and name.
func (s *shared) nodes(view *state.State, role string) []*swarmv1.Node {
	roles := []string{role}
	if role == "" {
		roles = nil
		for _, r := range naming.Roles() {
			if r.Node {
				roles = append(roles, r.Name)
			}
		}
		slices.Sort(roles)
	}
	leader, _, _ := s.cfg.Core.Leader()
	var out []*swarmv1.Node
	for _, r := range roles {
		for _, n := range view.NodesByRole(r) {
			p := messages.Node(n)
			if p.Banned = view.Banned(n.PeerID) != nil; p.Banned && role != "" {
				continue
			}
			p.Leader = n.Role == naming.RoleSN && n.Name == leader
			out = append(out, p)
		}
	}
	return out
}
