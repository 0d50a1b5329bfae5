package framework

import (
	"errors"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// Beside is where rank 0 is if an SL runs it itself; false: hosts run all members. It comes before the placed ones among the members.
func (w *World) Beside() (Place, bool) {
	b := w.job.Beside
	return Place{Host: b.SL, Name: NameOf(0), Address: b.Address}, b.SL != ""
}

// first is the rank of the first member that a host runs.
func (w *World) first() int {
	if _, is := w.Beside(); is {
		return 1
	}
	return 0
}

// checkBeside refuses what has no rank 0, or can't reach it.
func (w *World) checkBeside() error {
	j := w.job
	switch {
	case j.Beside.SL == "":
		return nil
	case j.Framework != jobfile.PyTorch && j.Framework != jobfile.Horovod:
		return fmt.Errorf("it is beside an SL, and its framework is %s: ranks are those of pytorch or horovod", j.Framework)
	case j.Network != jobfile.Host:
		return errors.New("it is beside an SL, whose program is in no network of members: write network: host")
	case j.Restarts > 0:
		return errors.New("it is beside an SL, which starts all ranks again itself: leave restarts out")
	}
	return nil
}

// RankZero is what the program of rank 0 finds, which the SL runs that a job is beside: the variables of a member, by name, but for the job's own, the
// file of all members and their addresses. device is the interface of its address.
func (w *World) RankZero(run, device string) []jobfile.Var {
	p := Placement{Run: run, Epoch: w.job.Beside.Epoch, Members: make([]Place, 1+w.Size())}
	p.Members[0], _ = w.Beside()
	p.Members[0].Interface = device
	m := Member{}
	all := jobfile.WithVars(w.common(p, m), sorted(w.kind.vars(w, p, m)))
	return slices.DeleteFunc(all, func(v jobfile.Var) bool { return slices.Contains([]string{"SWARM_NODE_IPS", "SWARM_GROUP"}, v.Name) })
}
