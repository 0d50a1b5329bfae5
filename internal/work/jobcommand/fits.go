package jobcommand

import (
	"fmt"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
)

// Fits refuses a job that no host runs, whatever its owner says: so nobody is asked about it. process says that its members are processes.
func Fits(w *framework.World, process bool) error {
	j, p := w.Expanded(), standIn(w)
	rank := len(p.Members) - w.Size() // an SL may run the first
	for _, g := range w.Groups {
		err := groupFits(w, p, rank, g, j.Source, process)
		if err != nil {
			return fmt.Errorf("job %s, group %s: %w", j.Name, g.Name, err)
		}
		rank += g.Replicas
	}
	return nil
}

// groupFits is Fits for one group, by its first member.
func groupFits(w *framework.World, p framework.Placement, rank int, g framework.Group, source []jobfile.File, process bool) error {
	if err := CheckEnv(g, process); err != nil {
		return err
	}
	x, err := w.Program(p, rank)
	if err != nil || !process {
		return err
	}
	if _, err := ForHost(x.Command, source); err != nil {
		return err
	}
	if len(x.Starts) > 0 {
		if _, err := ForHost(x.Starts, source); err != nil {
			return err
		}
	}
	if len(x.Ready.Command) == 0 {
		return nil
	}
	if _, err := ForHost(x.Ready.Command, source); err != nil {
		return fmt.Errorf("its ready.command: %w", err)
	}
	return nil
}

// standIn places members before it is known where they will be: what a program is does not depend on it.
func standIn(w *framework.World) framework.Placement {
	j := w.Expanded()
	p := framework.Placement{Run: j.Name, Metadata: "/nodes.json"}
	if first, is := w.Beside(); is {
		p.Members = append(p.Members, first)
	}
	for _, g := range w.Groups {
		for range g.Replicas {
			x := framework.Place{Host: "host", Name: framework.NameOf(len(p.Members)), Address: "198.18.0.1", Artifacts: j.Artifacts.Dir}
			if j.Network == jobfile.Host {
				x.Interface = "eth0"
			}
			if j.WorkDir != "" {
				x.WorkDir = "/work"
			}
			if w.SecretFiles(g.Name) {
				x.Secrets = "/secrets"
			}
			p.Members = append(p.Members, x)
		}
	}
	return p
}
