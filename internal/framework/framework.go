// Package framework turns a job into its members: which there are, in which order they start and when the job is done, and for each that is
// placed the command, the variables of its environment, and how it is asked whether it is ready. It is pure, and a framework is a file of it;
// what is launched is the framework's own, unchanged.
package framework

import (
	"errors"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// Group is a number of members of a job that run the same.
type Group struct {
	jobfile.Settings
	Name     string
	Replicas int
	// Least is how many have to end with success for the group's success; 0: it serves the others. A member of such a group that ends before
	// the job is done has failed, whatever its exit code; after that it is ended.
	Least int
}

// Serves reports whether the group is to run until the others are done.
func (g Group) Serves() bool { return g.Least == 0 }

// SecretFiles reports whether members of a group have secrets as files.
func (w *World) SecretFiles(group string) bool {
	return slices.ContainsFunc(w.Groups, func(g Group) bool {
		return g.Name == group && slices.ContainsFunc(g.Secrets, func(s jobfile.Secret) bool { return s.File })
	})
}

// World is a job with its members, not placed yet.
type World struct {
	Groups   []Group // ranks count through them
	Start    string  // as the words of jobfile
	DoneWhen string

	job  *jobfile.Job
	kind kind
}

// kind is a framework.
type kind struct {
	start, doneWhen string
	// groups are those of a job.
	groups func(*jobfile.Job) ([]Group, error)
	// vars are the variables of a member, beside those that every member has.
	vars func(w *World, p Placement, m Member) []jobfile.Var
	// command is the program of a member, and ready how it is asked, if its group does not say so.
	command func(w *World, p Placement, m Member) []string
	ready   func(w *World, p Placement, m Member) Ready
	// starts is what the command of a member starts, behind --, with its arguments; nil: none starts another.
	starts func(w *World, m Member) (command, args []string)
	// ports are those to which members of a group listen: each, and the first besides; nil: none is known.
	ports func(w *World, group int) (each, first []int)
	// meeting is where members meet before their programs can; nil: nowhere.
	meeting func(w *World, p Placement) Meeting
}

// kindOf returns the framework of a name.
func kindOf(name string) (kind, bool) {
	switch name {
	case jobfile.None:
		return none(), true
	case jobfile.PyTorch:
		return pytorch(), true
	case jobfile.TensorFlow:
		return tensorflow(), true
	case jobfile.Dask:
		return dask(), true
	case jobfile.Horovod:
		return horovod(), true
	case jobfile.Ray:
		return ray(), true
	}
	return kind{}, false
}

// WorldOf returns the world of a job, and refuses one that the framework can't run.
func WorldOf(j *jobfile.Job) (*World, error) {
	k, ok := kindOf(j.Framework)
	if !ok {
		return nil, fmt.Errorf("the framework %.40q is not known here: update swarmd", j.Framework)
	}
	groups, err := k.groups(j)
	if err != nil {
		return nil, err
	}
	w := &World{Groups: groups, Start: j.Start, DoneWhen: j.DoneWhen, job: j, kind: k}
	if w.Start == "" {
		w.Start = k.start
	}
	switch {
	case w.DoneWhen != "":
	case slices.ContainsFunc(groups, Group.Serves):
		w.DoneWhen = jobfile.Main
	default:
		w.DoneWhen = k.doneWhen
	}
	return w, w.check()
}

func (w *World) check() error {
	if err := w.checkBeside(); err != nil {
		return err
	}
	if n := w.Size(); n > jobfile.MaxMembers {
		return fmt.Errorf("the job has %d members, at most %d are placed", n, jobfile.MaxMembers)
	}
	if !slices.ContainsFunc(w.Groups, func(g Group) bool { return !g.Serves() }) && w.job.TTL == 0 {
		return errors.New("nothing of the job ends by itself: write a command, or ends: {ttl: 4h}")
	}
	if _, is := w.Common(); w.job.Network == jobfile.Private && !is {
		return errors.New("network private is on one host, and no host may have members of all groups: name a host in each hosts, or another network")
	}
	for _, g := range w.Groups {
		for _, s := range g.Secrets {
			if !s.File && slices.ContainsFunc(g.Env, func(v jobfile.Var) bool { return v.Name == s.Name }) {
				return fmt.Errorf("group %s has %s under env and under secrets: leave one out", g.Name, s.Name)
			}
		}
	}
	if err := errors.Join(w.checkPorts(), w.checkBootstrap()); err != nil {
		return err
	}
	for _, m := range w.members() {
		g := w.Groups[m.group]
		if len(g.Command) == 0 && len(w.kind.command(w, Placement{Members: make([]Place, 1+w.first())}, m)) == 0 && g.Image == "" {
			return fmt.Errorf("group %s has neither a command nor an image whose own it runs: write command", g.Name)
		}
	}
	return nil
}

// Common are the hosts that may have members of all groups. None is any host, and it is false if there is no such host.
func (w *World) Common() (hosts []string, is bool) {
	for _, g := range w.Groups {
		switch {
		case len(g.Hosts) == 0:
		case hosts == nil:
			hosts = slices.Clone(g.Hosts)
		default:
			hosts = slices.DeleteFunc(hosts, func(h string) bool { return !slices.Contains(g.Hosts, h) })
			if len(hosts) == 0 {
				return nil, false
			}
		}
	}
	return hosts, true
}

// Expanded returns the job with all that its framework adds written out. It has the same world.
func (w *World) Expanded() *jobfile.Job {
	j := *w.job
	j.Replicas, j.Groups, j.Start, j.DoneWhen = 0, nil, w.Start, w.DoneWhen
	for _, g := range w.Groups {
		x := jobfile.Group{Settings: g.Settings, Name: g.Name, Replicas: g.Replicas}
		if g.Least < g.Replicas {
			x.MinSuccess = g.Least
		}
		j.Groups = append(j.Groups, x)
	}
	return &j
}

// Size is how many members there are.
func (w *World) Size() (n int) {
	for _, g := range w.Groups {
		n += g.Replicas
	}
	return n
}

// Main is the index of the group whose end is the job's, if it is done when that is: the first that does not serve; 0 where all do.
func (w *World) Main() int {
	return max(0, slices.IndexFunc(w.Groups, func(g Group) bool { return !g.Serves() }))
}

// declared are the groups that a file has, or one of the name for its replicas; all are to end.
func declared(j *jobfile.Job, name string) (all []Group) {
	if len(j.Groups) == 0 {
		return []Group{{Settings: j.Settings, Name: name, Replicas: j.Replicas, Least: j.Replicas}}
	}
	for _, g := range j.Groups {
		least := g.MinSuccess
		if least == 0 {
			least = g.Replicas
		}
		all = append(all, Group{Settings: g.Settings, Name: g.Name, Replicas: g.Replicas, Least: least})
	}
	return all
}
