package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/health"
)

// ofHealth tells of the node's health.
func ofHealth(report func() health.Report) prometheus.Collector {
	ready := desc("node_ready", "1: the node has come up and serves.")
	healthy := desc("node_healthy", "1: the node is healthy, as swarmd health has it.")
	leader := desc("leader_contact_timestamp_seconds", "When a raft leader was last in contact with the node; absent before the first time.")
	svid := newValidity()
	return described{append(svid.descs(), ready, healthy, leader), func(to chan<- prometheus.Metric) {
		r := report()
		gauge(to, ready, truth(r.Ready))
		gauge(to, healthy, truth(r.Healthy))
		svid.collect(to, r.Identity.NotBefore, r.Identity.NotAfter)
		dated(to, leader, r.LeaderSeen)
	}}
}

// ofSVID tells of the identity of what is no node.
func ofSVID(status func() identity.Status) prometheus.Collector {
	svid := newValidity()
	return described{svid.descs(), func(to chan<- prometheus.Metric) {
		s := status()
		svid.collect(to, &s.NotBefore, &s.NotAfter)
	}}
}

// validity is that of an SVID.
type validity struct{ begins, expires *prometheus.Desc }

func newValidity() validity {
	return validity{
		begins:  desc("svid_not_before_timestamp_seconds", "When the life of the SVID began."),
		expires: desc("svid_expiry_timestamp_seconds", "When the SVID expires; absent while there is none."),
	}
}

func (l validity) descs() []*prometheus.Desc { return []*prometheus.Desc{l.begins, l.expires} }

func (l validity) collect(to chan<- prometheus.Metric, begins, expires *time.Time) {
	dated(to, l.begins, begins)
	dated(to, l.expires, expires)
}

// dated is when something is or was, unless that is not known.
func dated(to chan<- prometheus.Metric, d *prometheus.Desc, at *time.Time) {
	if at != nil && !at.IsZero() {
		gauge(to, d, float64(at.UnixMilli())/1000)
	}
}
