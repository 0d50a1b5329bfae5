package messages

import (
	"math"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
)

// Hidden says why a contract's rule hides the loss and the metric of each peer from a caller; empty: it does not. SNs see all, as each keeps it.
func Hidden(rules *state.Rules, caller identity.ID) string {
	if caller.Role() == naming.RoleSN {
		return ""
	}
	return rules.HidesCurves(caller.String())
}

// HideStatus takes the loss and the metric of each peer out of a contract's status, for the reason why; empty: nothing is hidden.
func HideStatus(m *swarmv1.GetContractStatusResponse, why string) {
	if m.Hidden = why; why == "" {
		return
	}
	for _, x := range m.GetContract().GetSessions() {
		if p := x.GetProgress(); p != nil {
			p.Loss, p.Metric, p.HasLoss, p.HasMetric, p.MetricName = 0, 0, false, false, ""
		}
	}
}

// ShowHistory adds the peers' means to rounds, and what the peers call the metric, and takes the loss and the metric of each peer out of them
// for the reason why; empty: nothing is hidden. Of metrics that are called differently there is no mean.
func ShowHistory(m *swarmv1.GetHistoryResponse, why string) {
	m.Hidden = why
	for _, r := range m.GetRounds() {
		loss, metric, name := mean{}, mean{}, common{}
		for _, p := range r.GetPeers() {
			r.Weighted = r.GetWeighted() || p.Weight != nil
			loss.add(p.Loss, p)
			metric.add(p.Metric, p)
			name.add(p.GetMetricName())
			if why != "" {
				p.Loss, p.Metric, p.MetricName = nil, nil, ""
			}
		}
		if r.MetricName = name.said; name.said != nil && *name.said == "" {
			metric = mean{}
		}
		r.Loss, r.Metric = loss.value(r.GetWeighted()), metric.value(r.GetWeighted())
	}
}

// common is a name that all give who give one: empty if they differ, nil if nobody does.
type common struct{ said *string }

func (c *common) add(name string) {
	switch {
	case name == "":
	case c.said == nil:
		c.said = &name
	case *c.said != name:
		c.said = new(string)
	}
}

// mean is a mean by weights, or a plain one of those who contributed where no weight is known.
type mean struct{ sum, weights, plain, count float64 }

func (m *mean) add(value *float64, of *swarmv1.HistoryPeer) {
	if value == nil || math.IsNaN(*value) || math.IsInf(*value, 0) {
		return
	}
	if of.GetContributed() {
		m.plain, m.count = m.plain+*value, m.count+1
	}
	m.sum, m.weights = m.sum+*value*float64(of.GetWeight()), m.weights+float64(of.GetWeight())
}

// value is nil if there is none, or JSON can't carry it.
func (m *mean) value(weighted bool) *float64 {
	out := m.plain / m.count
	if weighted {
		out = m.sum / m.weights
	}
	if math.IsNaN(out) || math.IsInf(out, 0) {
		return nil
	}
	return &out
}
