package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/identity/spire"
)

// What issues identities is no node, and named as one in what it tells.
const (
	RoleAuthority   identity.Role = "authority"
	RoleSpireServer identity.Role = "spire-server"
)

// Bounds of what a SPIRE server is asked for who scrapes.
const (
	countEvery = 5 * time.Second
	countLimit = 2 * time.Second
)

// ofCA describes when a CA expires.
func ofCA() *prometheus.Desc {
	return desc("ca_expiry_timestamp_seconds", "When the CA certificate expires with which identities are signed now; with an upstream authority the one below that.")
}

// Authority tells of an embedded authority.
func (s *Server) Authority(status func() embedded.Status) {
	if s == nil {
		return
	}
	var (
		ca        = ofCA()
		issued    = desc("svids_issued_total", "SVIDs that were issued, by the role of the socket.", "role")
		workloads = desc("workloads", "Programs that have a stream on which they are given SVIDs, by role.", "role")
	)
	s.register(described{[]*prometheus.Desc{ca, issued, workloads}, func(to chan<- prometheus.Metric) {
		st := status()
		dated(to, ca, &st.CANotAfter)
		for role, n := range st.Sockets {
			counter(to, issued, float64(n.Issued), role)
			gauge(to, workloads, float64(n.Workloads), role)
		}
	}})
}

// SpireServer tells of a SPIRE server. What counts what it has is told to what is returned, which is nil if nobody asked.
func (s *Server) SpireServer() (answers func(count spire.Count)) {
	if s == nil {
		return nil
	}
	x := &spireServer{}
	var (
		ca      = ofCA()
		up      = desc("spire_server_up", "1: the SPIRE server's API answers.")
		entries = desc("spire_registration_entries", "Registration entries that the SPIRE server has.")
		agents  = desc("spire_agents", "Agents that the SPIRE server has attested.")
	)
	s.register(described{[]*prometheus.Desc{ca, up, entries, agents}, func(to chan<- prometheus.Metric) {
		n, ok := x.now()
		gauge(to, up, truth(ok))
		if !ok {
			return
		}
		dated(to, ca, &n.CANotAfter)
		gauge(to, entries, float64(n.Entries))
		gauge(to, agents, float64(n.Agents))
	}})
	return x.begin
}

// spireServer is what a SPIRE server said last. However often somebody scrapes, it is asked every few seconds at most.
type spireServer struct {
	mu    sync.Mutex
	count spire.Count // nil: it does not answer yet
	asked time.Time
	last  spire.Counts
	err   error
}

// begin takes what counts.
func (x *spireServer) begin(count spire.Count) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.count = count
}

// now is what the server has; ok is false while it does not answer.
func (x *spireServer) now() (n spire.Counts, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.count == nil {
		return n, false
	}
	if x.asked.IsZero() || time.Since(x.asked) >= countEvery {
		ctx, cancel := context.WithTimeout(context.Background(), countLimit)
		defer cancel()
		x.last, x.err = x.count(ctx)
		x.asked = time.Now()
	}
	return x.last, x.err == nil
}
