package framework

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// Ports are those of their hosts to which members of a group are known to listen: each of them, and the first besides. There are none where members
// have a network of their own.
func (w *World) Ports(group int) (each, first []int) {
	if w.job.Network != jobfile.Host {
		return nil, nil
	}
	if w.kind.ports != nil {
		each, first = w.kind.ports(w, group)
	}
	if p := w.Groups[group].Ready.Port; p > 0 {
		each = append(each, p)
	}
	return each, first
}

// MemberPorts are those to which a placed member, of those of all groups, is known to listen.
func (w *World) MemberPorts(member int) (all []int) {
	m := w.members()[member]
	all, first := w.Ports(m.group)
	if m.Index == 0 {
		all = append(all, first...)
	}
	return all
}

// Shared is a port to which several members listen, so that each needs a host of its own.
type Shared struct{ Port, Members int }

// Apart are the ports to which several members listen, by number.
func (w *World) Apart() (all []Shared) {
	count := map[int]int{}
	for member := range w.members() {
		ports := w.MemberPorts(member)
		slices.Sort(ports)
		for _, p := range slices.Compact(ports) {
			count[p]++
		}
	}
	for p, n := range count {
		if n > 1 {
			all = append(all, Shared{p, n})
		}
	}
	slices.SortFunc(all, func(a, b Shared) int { return a.Port - b.Port })
	return all
}

// checkPorts refuses more members that listen to one port than there are hosts for them.
func (w *World) checkPorts() error {
	hosts, _ := w.Common()
	for _, s := range w.Apart() {
		if len(hosts) > 0 && s.Members > len(hosts) {
			return fmt.Errorf("%d members listen to port %d of their host, and it may have them on %d alone: name more hosts, give groups other ports, or have them in networks of their own", s.Members, s.Port, len(hosts))
		}
	}
	return nil
}

// valueOf is what an env says of a variable, and whether it does.
func valueOf(env []jobfile.Var, name string) (string, bool) {
	i := slices.IndexFunc(env, func(v jobfile.Var) bool { return v.Name == name })
	if i < 0 {
		return "", false
	}
	return env[i].Value, true
}

// portOf is the port that a text is; 0: it is none.
func portOf(s string) int {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return int(n)
}
