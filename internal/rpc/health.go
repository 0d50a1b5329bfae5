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
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/health"
)

// HeaderHealthyUntil is on the answer of /is_up while this SN is healthy: until when that holds unless its identity is
// renewed, in RFC 3339, UTC.
const HeaderHealthyUntil = "Swarm-Healthy-Until"

// Bounds of what a node says of its health: in all, in bytes, and how much of it is shown.
const (
	maxHealth   = 16 << 10
	maxWarnings = 8
)

// GetHealth tells how this SN fares, and the nodes that report to the leader.
func (s *Server) GetHealth(ctx context.Context, _ *connect.Request[swarmv1.GetHealthRequest]) (*connect.Response[swarmv1.GetHealthResponse], error) {
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

// askLeader returns the nodes that report to the leader. It is not patient: this SN's own health must be told in time.
func (s *Server) askLeader(ctx context.Context) ([]*swarmv1.NodeHealth, error) {
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
		res, err := swarmv1connect.NewSwarmServiceClient(&http.Client{Transport: way}, toLeader).GetHealth(ctx, asSN(s, &swarmv1.GetHealthRequest{}))
		if err == nil { // the first is the leader's own
			out = res.Msg.GetNodes()[min(1, len(res.Msg.GetNodes())):]
		}
		return err
	})
	return out, err
}

// ownHealth is this SN's health.
func (s *Server) ownHealth() *swarmv1.NodeHealth {
	if s.cfg.Health == nil {
		return &swarmv1.NodeHealth{Name: s.cfg.Name, Role: naming.RoleSN, Reason: "this SN does not watch its health"}
	}
	return s.cfg.Health()
}

// ledHealth is what nodes reported of their health to this SN as the leader.
func (s *Server) ledHealth() []*swarmv1.NodeHealth {
	var out []*swarmv1.NodeHealth
	now, view := s.cfg.Now(), s.cfg.Core.View()
	for _, n := range reporters(view) {
		h := s.healths.judge(n, now)
		if n.Left() {
			tellLeft(h, n)
		}
		if view.Banned(n.PeerID) != nil {
			h.Healthy, h.UntilUnixMs, h.Reason = false, 0, "it is banned; to let it in again: swarmctl unban node "+n.Name
			h.LeftReason = ""
		}
		out = append(out, h)
	}
	return out
}

// tellLeft says of a node's health that it is gone by its own word.
func tellLeft(h *swarmv1.NodeHealth, n *state.Node) {
	h.Healthy, h.UntilUnixMs, h.Warnings = false, 0, nil
	h.LeftReason = n.LeftReason
	h.Reason = "left: " + n.LeftReason
}

// reporters are the nodes that send heartbeats to the leader, sorted by role and name.
func reporters(view *state.State) []*state.Node {
	return append(view.NodesByRole(naming.RoleSL), view.NodesByRole(naming.RoleSWOP)...)
}

// healths is the leader's memory of what nodes said of their health. Safe for concurrent use.
type healths struct {
	mu sync.Mutex
	by map[string]told // by node name
}

type told struct {
	health *swarmv1.NodeHealth
	sn     string // that passed it on
	at     time.Time
}

// take remembers a report that came now by way of sn, made fit to show to others; nil says that the node tells nothing of its health.
func (h *healths) take(view *state.State, node *state.Node, m *swarmv1.NodeHealth, sn string, now time.Time) {
	clean := &swarmv1.NodeHealth{
		Name: node.Name, Role: node.Role, SpiffeId: node.SPIFFEID, // as proven, whatever it says
		Healthy: m.GetHealthy(), Reason: spoken(m.GetReason(), maxReason), Source: spoken(m.GetSource(), maxReason),
		SvidNotBeforeUnixMs: m.GetSvidNotBeforeUnixMs(), SvidNotAfterUnixMs: m.GetSvidNotAfterUnixMs(),
	}
	for _, w := range m.GetWarnings()[:min(len(m.GetWarnings()), maxWarnings)] {
		clean.Warnings = append(clean.Warnings, spoken(w, maxReason))
	}
	if m == nil {
		clean.Reason = "it does not report its health: it may run an older release of swarmd"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil {
		h.by = map[string]told{}
	}
	h.by[node.Name] = told{clean, sn, now}
	if len(h.by) > len(view.Nodes) {
		maps.DeleteFunc(h.by, func(name string, _ told) bool { return view.Nodes[name] == nil })
	}
}

// via returns the SN through which a node last reported, "" if it has not.
func (h *healths) via(node string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.by[node].sn
}

// judge returns the health of a node as this leader sees it now.
func (h *healths) judge(n *state.Node, now time.Time) *swarmv1.NodeHealth {
	h.mu.Lock()
	t, known := h.by[n.Name]
	h.mu.Unlock()
	if !known {
		out := &swarmv1.NodeHealth{Name: n.Name, Role: n.Role, SpiffeId: n.SPIFFEID, Reason: "the leader has not heard of it since it leads"}
		if !n.Live {
			out.Reason = gone(n, time.UnixMilli(n.LiveSinceMS), now)
		}
		return out
	}
	out := proto.CloneOf(t.health)
	if out.GetSvidNotAfterUnixMs() == 0 && !out.GetHealthy() {
		out.LeaderSeenUnixMs = t.at.UnixMilli() // it gives its own reason why there is nothing to judge
	} else {
		health.Second(out, t.at, now)
	}
	if !n.Live && now.Sub(t.at) > health.SeenWithin {
		out.Healthy, out.UntilUnixMs, out.Reason = false, 0, gone(n, t.at, now)
	}
	return out
}

func gone(n *state.Node, since, now time.Time) string {
	return fmt.Sprintf("nothing was heard of it for %s: start it again, or if it is gone for good: swarmctl forget node %s", health.Words(now.Sub(since)), n.Name)
}

// warnings are what the nodes of a contract's open sessions, and this SN, warn of.
func (s *Server) warnings(view *state.State, c *state.Contract) []string {
	now := s.cfg.Now()
	all := []*swarmv1.NodeHealth{s.ownHealth()}
	for _, n := range reporters(view) {
		for _, x := range c.Sessions {
			if x.Node == n.Name && x.State != state.SessionEnded && n.Live {
				all = append(all, s.healths.judge(n, now))
				break
			}
		}
	}
	var out []string
	for _, h := range all {
		for _, w := range h.GetWarnings() {
			out = append(out, fmt.Sprintf("node %s: %s", h.GetName(), w))
		}
	}
	shared := planner.SharedIDs(view, c)
	for _, id := range slices.Sorted(maps.Keys(shared)) {
		out = append(out, fmt.Sprintf("%s share the SPIFFE ID %s: each of them owns a part of the model, whoever runs them; give each node an entry of its own",
			strings.Join(shared[id], ", "), id))
	}
	return out
}

// isUp answers who only wants to know whether this SN is healthy, a load balancer or a script: 200 and "OK", or 503 and
// one line why not.
func (s *Server) isUp(w http.ResponseWriter, r *http.Request) {
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
