package framework

import (
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
