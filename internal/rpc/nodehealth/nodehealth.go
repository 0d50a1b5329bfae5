// Package nodehealth is the leader's memory of what nodes said of their health.
package nodehealth

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/reach/pairs"
	"github.com/swarmd/swarmd/internal/text"
)

// Bounds of what is shown of what a node says: warnings, and bytes of each and of a reason.
const (
	maxWarnings = 8
	maxShown    = 512
)

// Memory is what nodes said to this SN as the leader. The zero value is ready. Safe for concurrent use.
type Memory struct {
	mu sync.Mutex
	by map[string]told // by node name
}

type told struct {
	health *swarmv1.NodeHealth
	sn     string // that passed it on
	at     time.Time
}

// Take remembers a report that came now by way of sn, made fit to show to others; nil says that the node tells nothing of its health.
func (h *Memory) Take(view *state.State, node *state.Node, m *swarmv1.NodeHealth, sn string, now time.Time) {
	clean := &swarmv1.NodeHealth{
		Name: node.Name, Role: node.Role, SpiffeId: node.SPIFFEID, // as proven, whatever it says
		Healthy: m.GetHealthy(), Reason: shown(m.GetReason()), Source: shown(m.GetSource()),
		SvidNotBeforeUnixMs: m.GetSvidNotBeforeUnixMs(), SvidNotAfterUnixMs: m.GetSvidNotAfterUnixMs(), Links: pairs.Bound(m.GetLinks()),
	}
	if clean.Links != nil {
		clean.Links.Sn = sn // not for the node to say
	}
	for _, w := range m.GetWarnings()[:min(len(m.GetWarnings()), maxWarnings)] {
		clean.Warnings = append(clean.Warnings, shown(w))
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

// Via returns the SN through which a node last reported, "" if it has not.
func (h *Memory) Via(node string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.by[node].sn
}

// Links returns what a node last said of its connections with others, as of now; nil: that is not known.
func (h *Memory) Links(node string, now time.Time) *swarmv1.NodeLinks {
	h.mu.Lock()
	t := h.by[node]
	h.mu.Unlock()
	if now.Sub(t.at) > health.SeenWithin {
		return nil
	}
	return pairs.Aged(t.health.GetLinks(), now.Sub(t.at))
}

// Judge returns the health of a node as this leader sees it now.
func (h *Memory) Judge(n *state.Node, now time.Time) *swarmv1.NodeHealth {
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
	out.Links = h.Links(n.Name, now)
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

// shown is what a node says, bounded and fit to be shown.
func shown(said string) string { return text.Printable(text.Cut(said, maxShown), ' ') }
