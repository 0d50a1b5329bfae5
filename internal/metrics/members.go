package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/work"
)

// What looking at a host may cost.
const (
	lookFor   = 3 * time.Second  // at most
	lookAgain = 10 * time.Second // after it
)

// members counts what runs on a host for tasks. It asks the executors, and keeps the answer for a moment: an engine has more to do.
type members struct {
	types    map[string]work.Type
	count    *prometheus.Desc
	failures *prometheus.Desc

	mu     sync.Mutex
	looked time.Time
	found  map[kind]int
	failed map[string]bool // by type, at the last look
}

type kind struct {
	of    string // type of the task
	state task.State
}

// Members tells of what the executors that types makes have on this host.
func (s *Server) Members(types func(swop.Given) map[string]work.Type) func(swop.Given) map[string]work.Type {
	if s == nil {
		return types
	}
	return func(given swop.Given) map[string]work.Type {
		made := types(given)
		s.register(&members{
			types: made, count: desc("task_members", "Members of tasks of which something is on this host, containers or processes, by type of task and state.", "task_type", "state"),
			failures: desc("task_look_failed", "1: the host could not see what runs for tasks of a type, as its container engine does not answer.", "task_type"),
		})
		return made
	}
}

// Describe implements prometheus.Collector.
func (m *members) Describe(to chan<- *prometheus.Desc) {
	to <- m.count
	to <- m.failures
}

// Collect implements prometheus.Collector.
func (m *members) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.looked) >= lookAgain {
		m.look()
	}
	for name, failed := range m.failed {
		gauge(to, m.failures, truth(failed), name)
		for _, state := range []task.State{task.Prepared, task.Started, task.Ready, task.Exited} {
			if !failed {
				gauge(to, m.count, float64(m.found[kind{name, state}]), name, string(state))
			}
		}
	}
}

// look asks all executors. The caller holds mu.
func (m *members) look() {
	ctx, cancel := context.WithTimeout(context.Background(), lookFor)
	defer cancel()
	m.found, m.failed = map[kind]int{}, map[string]bool{}
	for name, t := range m.types {
		if t.Executor == nil {
			continue
		}
		found, err := t.Executor.Find(ctx)
		m.failed[name] = err != nil
		for _, f := range found {
			m.found[kind{name, f.State}]++
		}
	}
	m.looked = time.Now()
}
