package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Board is what a dashboard does now, and what it has done.
type Board struct {
	Live    bool              // the swarm can be asked
	Streams int               // open ones, of pages
	Logs    int               // that pages follow
	Asked   map[string]uint64 // documents that the swarm was asked for, by kind
	Failed  map[string]uint64 // those of them that did not come
}

// Dashboard tells of a dashboard. No label says whose page it is, or of what a document is.
func (s *Server) Dashboard(now func() Board) {
	if s == nil {
		return
	}
	var (
		live    = desc("dashboard_live", "1: the swarm can be asked; 0: pages are told why not.")
		streams = desc("dashboard_streams", "Open streams to pages: of what has changed, and of logs that they follow.", "kind")
		asked   = desc("dashboard_documents_total", "Documents that the swarm was asked for, by kind.", "document")
		failed  = desc("dashboard_documents_failed_total", "Documents that did not come, by kind.", "document")
	)
	s.register(described{[]*prometheus.Desc{live, streams, asked, failed}, func(to chan<- prometheus.Metric) {
		b := now()
		gauge(to, live, truth(b.Live))
		gauge(to, streams, float64(b.Streams), "page")
		gauge(to, streams, float64(b.Logs), "log")
		for _, kind := range slices.Sorted(maps.Keys(b.Asked)) {
			counter(to, asked, float64(b.Asked[kind]), kind)
			counter(to, failed, float64(b.Failed[kind]), kind)
		}
	}})
}

// Programs is what SWCI in web mode does now, and what it has done.
type Programs struct {
	Requests     int // under way
	Done, Failed uint64
	Refused      uint64 // requests of who is no client, and beyond the bounds
}

// Web tells of SWCI in web mode. No label says who had what done: the log does.
func (s *Server) Web(now func() Programs) {
	if s == nil {
		return
	}
	var (
		requests = desc("web_requests", "Requests of programs that are under way.")
		commands = desc("web_commands_total", "Commands that programs had done, by what came of them.", "outcome")
		refused  = desc("web_refused_total", "Requests that were refused: of who is no client, or too many at a time.")
	)
	s.register(described{[]*prometheus.Desc{requests, commands, refused}, func(to chan<- prometheus.Metric) {
		p := now()
		gauge(to, requests, float64(p.Requests))
		counter(to, commands, float64(p.Done), "done")
		counter(to, commands, float64(p.Failed), "failed")
		counter(to, refused, float64(p.Refused))
	}})
}
