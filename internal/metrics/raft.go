package metrics

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/planner"
)

// Group is an SN's end of the raft group.
type Group interface {
	Contracts
	// Barrier waits until all is applied that was committed before.
	Barrier(ctx context.Context) error
	Status() consensus.Status
	LedgerComplete() error
}

// Committed counts how long commands take that are committed while this SN leads. It may be called before Raft, and returns nil if nobody asked.
func (s *Server) Committed() func(took time.Duration) {
	if s == nil {
		return nil
	}
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "swarmd_raft_commit_duration_seconds", Help: "Time from proposing a command to its being applied, at the SN that leads.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	})
	s.register(h)
	return func(took time.Duration) { h.Observe(took.Seconds()) }
}

// Raft tells of an SN's end of the raft group and of its copy of the ledger, and follows nodes and contracts until Close. status is what the
// leader knows of a contract.
func (s *Server) Raft(g Group, status func(contract string) planner.Status) {
	if s == nil {
		return
	}
	s.cfg.Traffic.namedBy(func(peerID string) string {
		if n := g.View().NodeOfKey(peerID); n != nil {
			return n.Name
		}
		return ""
	})
	f := newFollower(g, status)
	s.register(f, f.lasted)
	ctx, cancel := context.WithCancel(context.Background())
	s.done.Go(func() { f.run(ctx, g.Barrier) })
	s.done.Go(func() { <-s.quit; cancel() })
	var (
		leads     = desc("raft_is_leader", "1: this SN leads.")
		has       = desc("raft_has_leader", "1: this SN leads or follows a leader; 0: there is no quorum, or an election.")
		term      = desc("raft_term", "The current term.")
		committed = desc("raft_commit_index", "Index of the last entry that is known to be committed.")
		applied   = desc("raft_applied_index", "Index of the last command that this SN has applied.")
		entries   = desc("raft_log_entries", "Entries of the log that are kept.")
		size      = desc("raft_log_size_bytes", "What these entries take on disk, about.")
		voters    = desc("raft_voters", "Servers that vote, as this SN knows it.")
		servers   = desc("raft_servers", "Servers of the group, as this SN knows it.")
		queue     = desc("raft_queue_length", "Commands and reads that wait for raft here.")
		records   = desc("ledger_records", "Records of the ledger, as this SN has applied it.")
		ledger    = desc("ledger_size_bytes", "Bytes of the ledger, likewise.")
		whole     = desc("ledger_complete", "1: this SN has all records of the ledger.")
	)
	s.register(described{[]*prometheus.Desc{leads, has, term, committed, applied, entries, size, voters, servers, queue, records, ledger, whole}, func(to chan<- prometheus.Metric) {
		st := g.Status()
		gauge(to, leads, truth(st.Leads))
		gauge(to, has, truth(st.HasLeader))
		gauge(to, term, float64(st.Term))
		gauge(to, committed, float64(st.Committed))
		gauge(to, applied, float64(st.Applied))
		gauge(to, entries, float64(st.LogEntries))
		gauge(to, size, float64(st.LogBytes))
		gauge(to, voters, float64(st.Voters))
		gauge(to, servers, float64(st.Servers))
		gauge(to, queue, float64(st.Queue))
		gauge(to, whole, truth(g.LedgerComplete() == nil))
		if head := g.View().Ledger; head != nil {
			gauge(to, records, float64(head.Length))
			gauge(to, ledger, float64(head.Bytes))
		}
	}})
}

// API counts the connections to an SN's API.
func (s *Server) API(ln net.Listener) net.Listener {
	if s == nil {
		return ln
	}
	l := &listener{Listener: ln}
	s.register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swarmd_api_connections", Help: "Connections to this SN's API that are open.",
	}, func() float64 { return float64(l.open.Load()) }))
	return l
}

type listener struct {
	net.Listener
	open atomic.Int64
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.open.Add(1)
	return &accepted{Conn: c, from: l}, nil
}

type accepted struct {
	net.Conn
	from   *listener
	closed atomic.Bool
}

// Close implements net.Conn.
func (a *accepted) Close() error {
	if a.closed.CompareAndSwap(false, true) {
		a.from.open.Add(-1)
	}
	return a.Conn.Close()
}
