package swop

import (
	"errors"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/policy"
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
	image, err := imageOf(w, o.Process)
	if err != nil {
		return a, &unfit{err}
	}
	if job.WorkDir != "" && o.Afar {
		return a, &unfit{errAfar}
	}
	if err := o.beside(&r, h); err != nil {
		return a, &unfit{err}
	}
	take(&r, h)
	r.Held, r.Folders = !o.Process, foldersOf(w)
	if o.Process {
		r.Runtime = policy.Process
	} else if job.Network != jobfile.Private {
		r.Networks = []string{job.Network}
	}
	return asked{all: []policy.Request{r}, images: image != "", fetches: image}, nil
}

// errAfar is of a job for whose runs this host can make no folders.
var errAfar = errors.New("it has a work_dir, in which this host's SWOP makes a folder for each run, and it sees no files of its engine's host: run the SWOP there, and not in a container")

// imageOf is the image of a job's containers; empty: it runs as processes, which process says this host's tasks do.
func imageOf(w *framework.World, process bool) (string, error) {
	image, err := jobrequest.Image(w)
	switch {
	case err != nil:
		return "", err
	case image != "" && process:
		return "", errors.New("it runs in containers, and this host runs jobs as processes: leave image out, or start this SWOP with --ml-runtime docker")
	case image == "" && !process:
		return "", errors.New("it has no image, and this host runs jobs in containers: name one, or start this SWOP with --ml-runtime process")
	}
	return image, nil
}
