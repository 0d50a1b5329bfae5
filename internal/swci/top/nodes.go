package top

import (
	"fmt"
	"strings"
	"time"
)

// summary says in a few words how the nodes are, and what is wrong with the swarm.
func (s *screen) summary() (rows []row) {
	if s.known.nodes == nil {
		return s.lacking("nodes", "nodes")
	}
	all := s.known.nodes.Nodes
	roles := map[string]int{}
	var unwell []string
	for _, n := range all {
		roles[n.Role]++
		if state, t := s.state(n); t == bad || t == warn {
			unwell = append(unwell, n.Name+" "+state)
		}
	}
	var each []string
	for _, role := range []string{"sn", "sl", "swop"} {
		if roles[role] > 0 {
			each = append(each, several(roles[role], strings.ToUpper(role)))
		}
	}
	count := several(len(all), "node") + ": " + strings.Join(each, ", ")
	switch {
	case len(all) == 0: // it is said where they would stand
	case len(unwell) > 0:
		rows = append(rows, folded(count+"; ", "not well: "+strings.Join(unwell, ", "), warn, s.width, 2)...)
	case s.known.health != nil:
		rows = append(rows, folded(count+"; ", "all are well", good, s.width, 2)...)
	default:
		rows = append(rows, only(soft, count))
	}
	if q := s.known.nodes.NoQuorum; q != nil {
		rows = append(rows, folded("no quorum: ", q.Message, bad, s.width, 2)...)
		rows = append(rows, folded("to do  ", q.Remedy, plain, s.width, 2)...)
	}
	if s.known.swarm != nil {
		for _, r := range s.known.swarm.Rights {
			if a := s.asked[r.Document]; a == nil || a.err == "" { // else it is said where that stands
				rows = append(rows, folded("no right to see "+r.Document+": ", r.Error, warn, s.width, 1)...)
			}
		}
	}
	return rows
}

// health is what is known of a node's health.
func (s *screen) health(name string) (h NodeHealth, ok bool) {
	if s.known.health == nil {
		return h, false
	}
	for _, h := range s.known.health.Nodes {
		if h.Name == name {
			return h, true
		}
	}
	return h, false
}

// state is a node's in one word.
func (s *screen) state(n Node) (string, tone) {
	h, ok := s.health(n.Name)
	switch {
	case n.Banned || n.State == "banned":
		return "banned", bad
	case n.State == "left":
		return "left", soft
	case n.State == "dead" || n.State == "no answer":
		return n.State, bad
	case n.State != "alive": // "unknown", or a state that a newer SN tells
		return n.State, warn
	case ok && !h.Healthy && h.LeftReason == "":
		return "unhealthy", warn
	case ok:
		return "healthy", good
	}
	return n.State, good
}

// signs stand before the states of nodes, so that these differ without colours too.
var signs = map[tone]string{good: "●", soft: "○", warn: "!", bad: "×"}

// nodeRows are the nodes, and what each does in the contract that is shown.
func (s *screen) nodeRows() []row {
	if s.known.nodes == nil {
		return nil
	}
	now, training := s.cfg.Now(), s.training()
	g := grid{columns: []column{
		{title: "NODE", worth: 10},
		{title: "ROLE", worth: 7},
		{title: "STATE", worth: 9},
		{title: "MARKS", worth: 8},
		{title: "HEARD", worth: 6, right: true},
		{title: "LINKS", worth: 4, right: true},
		{title: "ROUND", worth: 3, right: true},
		{title: "PHASE", worth: 5},
		{title: "CPUS", worth: 2, right: true},
		{title: "MEMORY", worth: 2, right: true},
		{title: "GPUS", worth: 2, right: true},
		{title: "SINCE", worth: 1, right: true},
		{title: "RUNS BY", worth: 0},
		{title: "HOST", worth: 1},
		{title: "WHY", worth: 0},
	}}
	roles := map[string]string{"sn": "SN", "sl": "SL", "swop": "SWOP"}
	for _, n := range s.known.nodes.Nodes {
		state, t := s.state(n)
		h, _ := s.health(n.Name)
		role := roles[n.Role]
		if role == "" {
			role = n.Role
		}
		links, round, phase := none, none, none
		if n.Needs > 0 {
			links = fmt.Sprintf("%d/%d", n.Reaches, n.Needs)
		}
		if p := training.session(n.Name); p != nil && n.Role == "sl" {
			round = quantity(p.Round)
			phase, _ = doing(*p)
		}
		linksTone := soft
		if n.Reaches < n.Needs {
			linksTone = warn
		}
		g.add(word{n.Name, plain}, word{role, soft}, word{signs[t] + " " + state, t}, word{marks(n), strong}, word{since(h.Seen, now), plain}, word{links, linksTone},
			word{round, plain}, word{phase, plain}, word{quantity(n.CPUs), soft}, word{gibi(n.Memory), soft}, word{quantity(n.GPUs), soft},
			word{changed(n.Since, now), soft}, word{n.Runtime, soft}, word{n.Host, soft}, word{h.Reason, warn})
	}
	if len(g.cells) == 0 {
		return []row{only(plain, "No node is registered.")}
	}
	return append([]row{nil}, g.rows(s.width)...)
}

// marks are what a node is besides its role.
func marks(n Node) string {
	var m []string
	if n.Leader {
		m = append(m, "leader")
	}
	if n.Sentinel {
		m = append(m, "Sentinel")
	}
	return strings.Join(m, ", ")
}

// changed is how long ago a node came or went.
func changed(at *string, now time.Time) string {
	t, ok := instant(at)
	if !ok {
		return none
	}
	return rough(now.Sub(t))
}
