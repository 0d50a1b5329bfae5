package metrics

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/work"
)

// members counts what runs on a host for tasks, as the host itself has seen it last: a scrape makes no executor do anything.
type members struct {
	count    *prometheus.Desc
	failures *prometheus.Desc

	mu     sync.Mutex
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
		m := &members{
			found: map[kind]int{}, failed: map[string]bool{},
			count:    desc("task_members", "Members of tasks of which something is on this host, containers or processes, by type of task and state.", "task_type", "state"),
			failures: desc("task_look_failed", "1: the host could not see what runs for tasks of a type, as its container engine does not answer, or its disk.", "task_type"),
		}
		made := types(given)
		for name, t := range made {
			t.Saw = func(found []work.Found, err error) { m.saw(name, found, err) }
			made[name] = t
		}
		s.register(m)
		return made
	}
}

// saw takes what a look found.
func (m *members) saw(name string, found []work.Found, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed[name] = err != nil; err != nil {
		return
	}
	maps.DeleteFunc(m.found, func(k kind, _ int) bool { return k.of == name })
	for _, f := range found {
		m.found[kind{name, f.State}]++
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
	for name, failed := range m.failed {
		gauge(to, m.failures, truth(failed), name)
		for _, state := range []task.State{task.Prepared, task.Started, task.Ready, task.Exited} {
			if !failed {
				gauge(to, m.count, float64(m.found[kind{name, state}]), name, string(state))
			}
		}
	}
}
