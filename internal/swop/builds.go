package swop

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/dockerfile"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/artifacts"
	"github.com/swarmd/swarmd/internal/work/upload"
)

// Given is what executors are given of their host.
type Given struct {
	Tasks   work.Tasks
	Terms   policy.Terms // of the host's owner
	SwarmID func() string
	Left    *artifacts.Store
	Copies  *upload.Copier // of what members of jobs leave
	// Fetches reports whether an image may be fetched for a job.
	Fetches func(j work.Job, image string) bool
}

// givenTo is what executors are given; by returns who asked for an assignment, as the host has verified it.
func (o Owner) givenTo(tasks work.Tasks, by func(assignment string) string) Given {
	return Given{Tasks: tasks, Terms: o.Policy.Terms(), SwarmID: o.SwarmID, Fetches: func(j work.Job, image string) bool {
		body, err := taskfile.ReadBody(j.Task.Type, j.Task.Definition)
		b, builds := body.(taskfile.MakeUserContainer)
		if err != nil || !builds {
			return false
		}
		all, err := building(o.request(by(j.Label.Assignment), &task.Hosted{Request: j.Assignment}, j.Task), b)
		return err == nil && o.Policy.Fetches(all[0], image)
	}}
}

// building are the requests of a build, one for each image that it starts from.
func building(r policy.Request, b taskfile.MakeUserContainer) ([]policy.Request, error) {
	f, err := dockerfile.Read(b.Dockerfile())
	if err != nil {
		return nil, fmt.Errorf("BuildSteps: %w", err)
	}
	if r.Held = true; b.BuildContext != "" {
		r.Volumes = []string{b.BuildContext}
	}
	images := f.Bases()
	if len(images) == 0 {
		images = []string{dockerfile.Scratch}
	}
	all := make([]policy.Request, len(images))
	for i, image := range images {
		all[i] = r
		all[i].Image = policy.Image{Name: image}
	}
	return all, nil
}

// fetching are the requests of what fills a volume, one for each place that files are fetched from.
func fetching(r policy.Request, b taskfile.MakeSwarmUserContent) ([]policy.Request, error) {
	r.Held, r.Volumes = true, []string{r.Outcome}
	var all []policy.Request
	for i, op := range b.Ops {
		if op.Operation != taskfile.Download {
			continue
		}
		u, err := url.Parse(op.Target)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("OpsList[%d]: Target %.200q is no URL with a host", i, op.Target)
		}
		r.ContentHost = u.Host
		all = append(all, r)
	}
	if len(all) == 0 {
		return []policy.Request{r}, nil
	}
	return all, nil
}

// unreadable is the verdict on a task whose definition can't be read, or that its host can't carry out.
func unreadable(err error) consent.Verdict {
	if unfit, is := errors.AsType[*unfit](err); is {
		return consent.Verdict{Decision: consent.Refused, Sentence: unfit.Error()}
	}
	return consent.Verdict{Decision: consent.Refused, Sentence: "its definition can't be read: " + err.Error()}
}
