package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/reach/pairs"
)

// HeaderHealthyUntil is on the answer of /is_up while this SN is healthy: until when that holds unless its identity is
// renewed, in RFC 3339, UTC.
const HeaderHealthyUntil = "Swarm-Healthy-Until"

// maxHealth bounds what a node says of its health, in bytes.
const maxHealth = 16 << 10

// GetHealth tells how this SN fares, and the nodes that report to the leader.
func (s *swarmService) GetHealth(ctx context.Context, _ *connect.Request[swarmv1.GetHealthRequest]) (*connect.Response[swarmv1.GetHealthResponse], error) {
	out := &swarmv1.GetHealthResponse{Nodes: []*swarmv1.NodeHealth{s.ownHealth()}}
	led, err := s.askLeader(ctx)
	if err == nil {
		out.Nodes = append(out.Nodes, led...)
		return connect.NewResponse(out), nil
	}
	reason := "not known, the leader does not tell: " + err.Error()
	if counted, ok := errors.AsType[*quorum.Error](err); ok {
		reason = "not known: " + counted.Error()
	} else if errors.Is(err, consensus.ErrNoLeader) {
		reason = "not known: the SNs have no leader; a majority of them must run"
	}
	for _, n := range reporters(s.cfg.Core.View()) {
		h := &swarmv1.NodeHealth{Name: n.Name, Role: n.Role, SpiffeId: n.SPIFFEID, Reason: reason}
		if n.Left() {
			tellLeft(h, n)
		}
		out.Nodes = append(out.Nodes, h)
	}
	return connect.NewResponse(out), nil
}

// askLeader returns the nodes that report to the leader. It does not wait long: this SN's own health must be told in time.
func (s *swarmService) askLeader(ctx context.Context) ([]*swarmv1.NodeHealth, error) {
	if via(ctx) != "" { // another SN asks this one as the leader
		return s.ledHealth(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	var out []*swarmv1.NodeHealth
	err := s.cfg.Core.WithLeader(ctx, func(ctx context.Context, way http.RoundTripper) error {
		if way == nil {
			out = s.ledHealth()
			return nil
		}
		res, err := swarmv1connect.NewSwarmServiceClient(&http.Client{Transport: way}, toLeader).GetHealth(ctx, asSN(s.shared, &swarmv1.GetHealthRequest{}))
		if err == nil { // the first is the leader's own
			out = res.Msg.GetNodes()[min(1, len(res.Msg.GetNodes())):]
		}
		return err
	})
	return out, err
}

// ownHealth is this SN's health.
func (s *shared) ownHealth() *swarmv1.NodeHealth {
	if s.cfg.Health == nil {
		return &swarmv1.NodeHealth{Name: s.cfg.Name, Role: naming.RoleSN, Reason: "this SN does not watch its health"}
	}
	return s.cfg.Health()
}

// ledHealth is what nodes reported of their health to this SN as the leader.
func (s *swarmService) ledHealth() []*swarmv1.NodeHealth {
	var out []*swarmv1.NodeHealth
	now, view, room := s.cfg.Now(), s.cfg.Core.View(), roomForLinks()
	for _, n := range reporters(view) {
		h := s.healths.Judge(n, now)
		h.Links = room.fit(h.GetLinks())
		if w := s.cfg.DialBack.Warning(n); w != "" {
			h.Warnings = append(h.Warnings, w)
		}
		if n.Left() {
			tellLeft(h, n)
		}
		if view.Banned(n.PeerID) != nil {
			h.Healthy, h.UntilUnixMs, h.Reason = false, 0, "it is banned; to let it in again: swarmctl unban node "+n.Name
			h.LeftReason, h.Links = "", nil
		}
		out = append(out, h)
	}
	return out
}

// tellLeft says of a node's health that it is gone by its own word.
func tellLeft(h *swarmv1.NodeHealth, n *state.Node) {
	h.Healthy, h.UntilUnixMs, h.Warnings, h.Links = false, 0, nil, nil
	h.LeftReason = n.LeftReason
	h.Reason = "left: " + n.LeftReason
}

// reporters are the nodes that send heartbeats to the leader, sorted by role and name.
func reporters(view *state.State) []*state.Node {
	var out []*state.Node
	for _, r := range naming.Roles() {
		if r.Beats {
			out = append(out, view.NodesByRole(r.Name)...)
		}
	}
	return out
}

// warnings are what the nodes of a contract's open sessions, and this SN, warn of.
func (s *contractService) warnings(view *state.State, c *state.Contract) []string {
	now := s.cfg.Now()
	all := []*swarmv1.NodeHealth{s.ownHealth()}
	for _, n := range reporters(view) {
		for _, x := range c.Sessions {
			if x.Node == n.Name && x.State != state.SessionEnded && n.Live {
				all = append(all, s.healths.Judge(n, now))
				break
			}
		}
	}
	var out []string
	for _, h := range all {
		warned := h.GetWarnings()
		if h.GetRole() == naming.RoleSL {
			warned = append(warned, pairs.ShutPorts(h.GetLinks())...)
		}
		for _, w := range warned {
			out = append(out, fmt.Sprintf("node %s: %s", h.GetName(), w))
		}
	}
	shared := planner.SharedIDs(view, c)
	for _, id := range slices.Sorted(maps.Keys(shared)) {
		out = append(out, fmt.Sprintf("%s share the SPIFFE ID %s: each of them owns a part of the model, whoever runs them; give each node an entry of its own, on the SPIRE server's machine: swarmctl invite sl/NAME",
			strings.Join(shared[id], ", "), id))
	}
	return out
}

// isUp answers who only wants to know whether this SN is healthy, a load balancer or a script: 200 and "OK", or 503 and
// one line why not.
func (s *entrance) isUp(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	h := s.ownHealth()
	if !h.GetHealthy() {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "unhealthy: "+h.GetReason()+"\n") // the client is gone: nobody to tell
		return
	}
	w.Header().Set(HeaderHealthyUntil, time.UnixMilli(h.GetUntilUnixMs()).UTC().Format(time.RFC3339))
	_, _ = io.WriteString(w, "OK") // as above
}
