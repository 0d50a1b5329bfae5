package jobs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
)

// needs is what hosts must have before anything of a job starts, in words.
func needs(w *framework.World, j *jobfile.Job) (all []string) {
	n := w.Size()
	switch {
	case j.Network == jobfile.Private && n > 1:
		all = append(all, fmt.Sprintf("one host with room for all %d members: network private reaches no other host", n))
	case j.Network == jobfile.Private, n == 1:
		all = append(all, "a host with room for the member")
	default:
		all = append(all, fmt.Sprintf("hosts with room for %d members", n))
	}
	if j.Network != jobfile.Private && slices.ContainsFunc(w.Groups, func(g framework.Group) bool { return g.Image != "" }) {
		all = append(all, fmt.Sprintf("on each of them: a policy that allows network %s", j.Network))
		if j.Network != jobfile.Host {
			all = append(all, fmt.Sprintf("at the engine of each: network %s, which is one for all of them", j.Network))
		}
	}
	if images, _ := jobrequest.Images(w); len(images) > 1 {
		all = append(all, "on each of them: the images of all groups, and a policy that allows each")
	}
	common, _ := w.Common()
	for _, g := range w.Groups {
		if len(common) > 0 {
			g.Hosts = common
		}
		all = append(all, ofGroup(g)...)
	}
	for _, s := range w.Apart() {
		all = append(all, fmt.Sprintf("a host of its own for each of %d members: all listen to port %d", s.Members, s.Port))
	}
	if j.WorkDir != "" {
		all = append(all, "on each of them: volume "+j.WorkDir+" for folders of runs, as work_dir")
	}
	if j.Artifacts.To != "" {
		all = append(all, "on each of them: target "+j.Artifacts.To+" for artifacts")
	}
	return append(all, fmt.Sprintf("all members to be ready within %s", jobfile.Duration(j.ReadyTimeout)))
}

// ofGroup is what the members of a group need of their hosts.
func ofGroup(g framework.Group) (all []string) {
	of := fmt.Sprintf("for each member of %s: ", g.Name)
	add := func(s string) { all = append(all, of+s) }
	if g.Image != "" {
		add("image " + g.Image)
	} else {
		add("a policy that allows processes")
	}
	if r := g.Resources.String(); r != "" {
		add(strings.ReplaceAll(r, ",", ", "))
	}
	if g.Resources.Disk > 0 {
		add("no more than that disk, to which no host holds it")
	}
	if len(g.Hosts) > 0 {
		add("a host of " + strings.Join(slices.Sorted(slices.Values(g.Hosts)), ", "))
	}
	for _, v := range g.Volumes {
		access := " to read"
		if v.Write {
			access = " to write"
		}
		add("volume " + v.Name + access)
	}
	for _, s := range g.Secrets {
		add("secret " + s.Name + ", and a policy that gives it")
	}
	return all
}
