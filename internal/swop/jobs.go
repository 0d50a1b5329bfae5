package swop

import (
	"errors"
	"maps"
	"slices"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work/jobcommand"
	"github.com/swarmd/swarmd/internal/work/secret"
)

// unfit is why a job is none for this host, whatever its owner says.
type unfit struct{ error }

// running is what a policy is asked about a job, of which r is what is known of each task: what the members that this host is to have take
// together, with those of other jobs that it has. What was signed must be this very job.
func (o Owner) running(r policy.Request, h *task.Hosted, t *task.Task) (a asked, err error) {
	if err := jobrequest.Hold(h.Request, t.Definition); err != nil {
		return a, &unfit{err}
	}
	job, err := jobfile.Decode(t.Definition)
	if err != nil {
		return a, err
	}
	w, err := framework.WorldOf(job)
	if err != nil {
		return a, err
	}
	images, err := imagesOf(w, o.Process)
	if err != nil {
		return a, &unfit{err}
	}
	if err := jobcommand.Fits(w, o.Process); err != nil {
		return a, &unfit{err}
	}
	if job.Artifacts.Dir != "" && o.Afar {
		return a, &unfit{errLeftAfar}
	}
	if job.WorkDir != "" && o.Afar {
		return a, &unfit{errAfar}
	}
	if err := o.beside(&r, h); err != nil {
		return a, &unfit{err}
	}
	take(&r, h)
	homes := homesOf(h, w)
	r.Secrets = slices.Sorted(maps.Keys(homes))
	r.Held, r.Folders = !o.Process, foldersOf(w)
	if job.Artifacts.To != "" {
		r.Targets = []string{job.Artifacts.To}
	}
	if o.Process {
		r.Runtime = policy.Process
	} else if job.Network != jobfile.Private {
		r.Networks = []string{job.Network}
	}
	return asked{all: []policy.Request{r}, images: len(images) > 0, names: images, homes: homes}, nil
}

// errLeftAfar is of a job whose members would leave artifacts where this host can't keep them.
var errLeftAfar = errors.New("it has artifacts, which this host's SWOP keeps on its engine's host, and it sees no files of that: run the SWOP there, and not in a container")

// errAfar is of a job for whose runs this host can make no folders.
var errAfar = errors.New("it has a work_dir, in which this host's SWOP makes a folder for each run, and it sees no files of its engine's host: run the SWOP there, and not in a container")

// hasSecrets says why the host can't give the secrets that a task asks for; Allowed: it can. Only who may have them is told.
func (o Owner) hasSecrets(a asked) consent.Verdict {
	for _, r := range a.all {
		err := o.Secrets.Has(r.Secrets)
		switch {
		case secret.Passes(err):
			return consent.Verdict{Decision: consent.Later, Sentence: err.Error()}
		case err != nil:
			return consent.Verdict{Decision: consent.Refused, Sentence: err.Error()}
		}
	}
	return consent.Verdict{Decision: consent.Allowed}
}

// imagesOf are the images of a job's containers; none: it runs as processes, which process says this host's tasks do.
func imagesOf(w *framework.World, process bool) ([]string, error) {
	images, err := jobrequest.Images(w)
	switch {
	case err != nil:
		return nil, err
	case len(images) > 0 && process:
		return nil, errors.New("it runs in containers, and this host runs jobs as processes: leave image out, or start this SWOP with --ml-runtime docker")
	case len(images) == 0 && !process:
		return nil, errors.New("it has no image, and this host runs jobs in containers: name one, or start this SWOP with --ml-runtime process")
	}
	return images, nil
}

// homesOf are, by secret, the images of those of the host's members of a job that have it.
func homesOf(h *task.Hosted, w *framework.World) map[string][]string {
	homes := map[string][]string{}
	for _, g := range w.Groups {
		if !slices.ContainsFunc(h.Members, func(m task.HostedMember) bool { return m.Group == g.Name }) {
			continue
		}
		for _, s := range g.Secrets {
			homes[s.Name] = append(homes[s.Name], g.Image)
		}
	}
	return homes
}
