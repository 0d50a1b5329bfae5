package framework

import (
	"errors"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// Groups of frameworks that have programs of their own.
const (
	scheduler = "scheduler"
	head      = "head"
	worker    = "worker"
	entry     = "entry"
)

// clusterGroups are those of a framework whose workers, which are the second group, and what they find run programs of its own. all are the groups without
// what the file says of them, known their names in words, and free the group that may run a command of the job; empty: none.
func clusterGroups(j *jobfile.Job, all []Group, known, free string) ([]Group, error) {
	for _, g := range j.Groups {
		at := slices.IndexFunc(all, func(x Group) bool { return x.Name == g.Name })
		switch {
		case at < 0:
			return nil, fmt.Errorf("group %s: %s has the groups %s", g.Name, j.Framework, known)
		case g.Name != worker && g.Replicas != 1:
			return nil, fmt.Errorf("group %s: %s has one: leave replicas out", g.Name, j.Framework)
		case g.Name != free && len(g.Command) > 0:
			return nil, fmt.Errorf("group %s runs %s's own program: write the command of yours above the groups, and options of %s as args", g.Name, j.Framework, j.Framework)
		case g.Name != free && g.MinSuccess > 0:
			return nil, fmt.Errorf("group %s serves the program and has no success of its own: leave min_success out", g.Name)
		}
		all[at].Settings, all[at].Replicas = g.Settings, g.Replicas
	}
	if all[1].Replicas == 0 {
		return nil, errors.New("the job has no workers: write a group worker with its replicas")
	}
	return all, nil
}

// serving are the settings above the groups without those of the job's program.
func serving(j *jobfile.Job) jobfile.Settings {
	s := j.Settings
	s.Command, s.Args, s.Ready = nil, nil, jobfile.Ready{}
	return s
}
