package swop

import (
	"context"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

// foldersOf are the folders that a job asks for, each with the most that a group of it does there.
func foldersOf(w *framework.World) (all []policy.Folder) {
	for _, g := range w.Groups {
		for _, v := range g.Volumes {
			f := policy.Folder{Name: v.Name, Use: policy.Read}
			if v.Write {
				f.Use = policy.Write
			}
			i := slices.IndexFunc(all, func(other policy.Folder) bool { return other.Name == f.Name })
			switch {
			case i < 0:
				all = append(all, f)
			case v.Write:
				all[i] = f
			}
		}
	}
	if dir := w.Expanded().WorkDir; dir != "" {
		all = append(all, policy.Folder{Name: dir, Use: policy.Runs})
	}
	return all
}

// lends is what a job has of the host that was consented to: the folders that it asks for.
func (o Owner) lends(ctx context.Context, t *task.Task) (g work.Grant, v consent.Verdict) {
	job, err := jobfile.Decode(t.Definition)
	if err != nil {
		return g, unreadable(err)
	}
	w, err := framework.WorldOf(job)
	if err != nil {
		return g, unreadable(err)
	}
	g.Folders, v = o.lent(ctx, o.Paths, foldersOf(w))
	return g, v
}

// lent returns where folders are that a policy names, with Allowed if all are there. What it says else it says of the first that is not, by its name:
// where that is, only this host's log has.
func (o Owner) lent(ctx context.Context, r hostpaths.Resolver, folders []policy.Folder) (map[string]string, consent.Verdict) {
	if len(folders) == 0 {
		return nil, consent.Verdict{Decision: consent.Allowed}
	}
	all, names := map[string]string{}, make([]string, 0, len(folders))
	for _, f := range folders {
		all[f.Name] = o.Policy.Path(f.Name)
		names = append(names, asDirectory(all[f.Name]))
	}
	own, err := o.own(ctx)
	var leads map[string]hostpaths.Lead
	if err == nil {
		leads, err = r.Resolve(ctx, names)
	}
	if err != nil {
		return nil, unlooked(err)
	}
	for _, f := range folders {
		at := all[f.Name]
		if why := misplaced(at, leads[asDirectory(at)], own); why != "" {
			return nil, consent.Verdict{
				Decision: consent.Refused, Sentence: fmt.Sprintf("it asks for volume %.80q, and its folder on this host can't be given: %s; correct folders in this host's policy", f.Name, why),
				Detail: fmt.Sprintf("%.200q leads to %.200q", at, leads[asDirectory(at)].At),
			}
		}
	}
	return all, consent.Verdict{Decision: consent.Allowed}
}

// asDirectory names a path so that nothing but a directory is there.
func asDirectory(path string) string { return path + "/." }

// misplaced says why a folder that a policy names is not given, in words that name nothing of the host; empty: it is. One behind a symbolic link could
// be exchanged by who may write where the link is, and would be given wherever it leads then.
func misplaced(at string, lead hostpaths.Lead, own []string) string {
	switch {
	case lead.Why != "":
		return lead.Why
	case lead.At != at:
		return "there is a symbolic link on the way to it: name where it leads"
	case slices.ContainsFunc(own, func(p string) bool { return hostpaths.Overlap(p, at) }):
		return "there is what this host keeps for itself, such as the identity of an SL or of this host: name another directory"
	}
	return ""
}
