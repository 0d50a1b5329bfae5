package runjob

import (
	"context"
	"fmt"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

// folders has a member's container have the folders of this host that it asks for, and that of its run, which is made.
func (c *Containers) folders(ctx context.Context, s *container.Spec, m member, j work.Job, run *runFolder) (err error) {
	if s.Mounts, err = mountsOf(ctx, c.Paths, m.group.Volumes, j.Grant.Folders); err != nil || run == nil {
		return err
	}
	run.files, run.log = m.found, c.Log
	if s.User != "" {
		run.uid, run.gid = numbers(s.User)
	}
	s.Mounts = append(s.Mounts, run.path()+":"+workDir(run.name))
	return run.make(ctx, c.Paths)
}

// mountsOf are the folders of this host that a member has, as engines bind them. It is asked just before: none of them is bound elsewhere than its owner's policy
// has it.
func mountsOf(ctx context.Context, r hostpaths.Resolver, volumes []jobfile.Volume, given map[string]string) (all []string, err error) {
	if len(volumes) == 0 {
		return nil, nil
	}
	for _, v := range volumes {
		at, is := given[v.Name]
		if !is {
			return nil, fmt.Errorf("it asks for volume %s, which this host's policy was not asked about: run the job again", v.Name)
		}
		if err := stillThere(ctx, r, v.Name, at); err != nil {
			return nil, err
		}
		mode := ":ro"
		if v.Write {
			mode = ""
		}
		all = append(all, at+":"+v.Target+mode)
	}
	return all, nil
}

// stillThere holds that a folder is where it was when this host's policy was asked. The error does not name where that is.
func stillThere(ctx context.Context, r hostpaths.Resolver, name, at string) error {
	leads, err := r.Resolve(ctx, []string{at})
	switch {
	case err != nil:
		return &work.Passing{Words: fmt.Sprintf("this host can't say now whether the folder of volume %s is there: see its SWOP's log", name), Err: err}
	case leads[at] != (hostpaths.Lead{At: at}):
		return fmt.Errorf("the folder of volume %s is not where it was when this host's policy was asked: run the job again", name)
	}
	return nil
}
