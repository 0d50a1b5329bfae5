package health

import (
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
)

// Report is what a daemon tells of its health on its socket, as JSON. docs/reference/health.md describes it.
type Report struct {
	Name       string     `json:"name"`
	Role       string     `json:"role"`
	PID        int        `json:"pid"`
	Ready      bool       `json:"ready"` // the node has come up and serves
	Healthy    bool       `json:"healthy"`
	Reason     string     `json:"reason"`
	Remedy     string     `json:"remedy"`
	Until      *time.Time `json:"until"`
	Identity   Identity   `json:"identity"`
	LeaderSeen *time.Time `json:"leader_seen"`
	Warnings   []string   `json:"warnings"`
}

// Identity is the state of the node's identity in a [Report].
type Identity struct {
	SPIFFEID     string     `json:"spiffe_id"`
	Source       string     `json:"source"`
	NotBefore    *time.Time `json:"not_before"`
	NotAfter     *time.Time `json:"not_after"`
	Updated      *time.Time `json:"updated"`
	TrustDomains []string   `json:"trust_domains"`
	Problem      string     `json:"problem"`
}

// newReport makes the parts of a report that come from facts.
func newReport(f Facts, now time.Time) Report {
	v := Judge(f, now)
	return Report{
		Healthy: v.Healthy, Reason: v.Reason, Remedy: v.Remedy, Until: moment(v.Until), LeaderSeen: moment(f.LeaderSeen),
		Warnings: append([]string{}, Warnings(f, now)...),
		Identity: Identity{
			SPIFFEID: f.Identity.ID.String(), Source: f.Identity.Origin, NotBefore: moment(f.Identity.NotBefore), NotAfter: moment(f.Identity.NotAfter),
			Updated: moment(f.Identity.Updated), TrustDomains: append([]string{}, f.Identity.Domains...), Problem: f.Identity.Problem,
		},
	}
}

// Verdict is the judgement in the report.
func (r Report) Verdict() Verdict {
	v := Verdict{Healthy: r.Healthy, Reason: r.Reason, Remedy: r.Remedy}
	if r.Until != nil {
		v.Until = *r.Until
	}
	return v
}

// Proto is the report as it travels in the API.
func (r Report) Proto() *swarmv1.NodeHealth {
	return &swarmv1.NodeHealth{
		Name: r.Name, Role: r.Role, Healthy: r.Healthy, Reason: r.Verdict().Why(), UntilUnixMs: millis(r.Until),
		SpiffeId: r.Identity.SPIFFEID, Source: r.Identity.Source,
		SvidNotBeforeUnixMs: millis(r.Identity.NotBefore), SvidNotAfterUnixMs: millis(r.Identity.NotAfter),
		LeaderSeenUnixMs: millis(r.LeaderSeen), Warnings: r.Warnings,
	}
}

// Second judges a node by what it reported of itself and when a leader heard that, on the leader's clock: a node that
// stopped reporting, or whose own clock stands still, does not stay healthy. What the node holds against itself stands.
// It changes h.
func Second(h *swarmv1.NodeHealth, seen, now time.Time) {
	h.LeaderSeenUnixMs = seen.UnixMilli()
	v := Judge(Facts{
		Identity:   identity.Status{Origin: h.GetSource(), NotBefore: at(h.GetSvidNotBeforeUnixMs()), NotAfter: at(h.GetSvidNotAfterUnixMs())},
		LeaderSeen: seen,
	}, now)
	switch {
	case !v.Healthy:
		h.Healthy, h.Reason, h.UntilUnixMs = false, v.Why(), 0
	case h.GetHealthy():
		h.Reason, h.UntilUnixMs = "", v.Until.UnixMilli()
	default:
		h.UntilUnixMs = 0
		if h.GetReason() == "" {
			h.Reason = "the node says so and gives no reason"
		}
	}
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Round(0)
	return &t
}

func millis(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMilli()
}

// at is the reverse of millis: 0 is no moment.
func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
