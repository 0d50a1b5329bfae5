package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/internal/rpc/nodehealth"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/rpc/messages"
	"github.com/swarmd/swarmd/internal/rpc/tasks"
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

// gather is the least time between two changes that a watcher of the swarm is told.
const gather = 250 * time.Millisecond

// WatchSwarm streams that the state has changed.
func (s *swarmService) WatchSwarm(ctx context.Context, _ *connect.Request[swarmv1.WatchSwarmRequest], stream *connect.ServerStream[swarmv1.SwarmChange]) error {
	next := time.NewTimer(0)
	defer next.Stop()
	told := uint64(0)
	return s.Follow(ctx, func(at tasks.Sight) error {
		if at.Index == told && !at.Again {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.stopping:
			return ErrStopping
		case <-next.C:
		}
		_, told = s.viewAt() // of now, not of before the wait
		next.Reset(gather)
		return stream.Send(&swarmv1.SwarmChange{Index: told})
	})
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
