package swop

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
)

// Owner asks the policy of a host's owner.
type Owner struct {
	Policy  *policy.Policy
	SwarmID func() string
	// Process says that RUN_SWARM starts processes, and Local that the swarm is one of `swarmctl local`.
	Process, Local bool
}

var _ consent.Policy = Owner{}

// Decide implements consent.Policy.
func (o Owner) Decide(_ context.Context, by string, h *task.Hosted, t *task.Task, image *policy.Image) consent.Verdict {
	body, err := taskfile.ReadBody(t.Type, t.Definition)
	if err != nil {
		return consent.Verdict{Decision: consent.Refused, Sentence: "its definition can't be read: " + err.Error()}
	}
	r := policy.Request{
		Submitter: by, Swarm: o.SwarmID(), Taskrunner: h.Taskrunner, Task: t.Name, Type: t.Type, Digest: t.Digest, Outcome: t.Outcome, Runtime: "docker", Local: o.Local,
		Hours: (time.Duration(h.TimeoutMS) * time.Millisecond).Hours(),
	}
	if image != nil {
		r.Image = *image
	}
	switch b := body.(type) {
	case taskfile.PullImage:
		r.Paths = onHost(b.Auth.Config)
	case taskfile.MakeUserContainer:
		if b.BuildContext != "" {
			r.Volumes = []string{b.BuildContext}
		}
	case taskfile.RunSwarm:
		if o.Process {
			r.Runtime = policy.Process
		}
		for _, s := range b.SharedContent {
			if strings.EqualFold(s.MountType, taskfile.Volume) {
				r.Volumes = append(r.Volumes, s.Src)
				continue
			}
			r.Paths = append(r.Paths, onHost(s.Src)...)
		}
	}
	d := o.Policy.Decide(r)
	switch d.Verdict {
	case policy.Allowed:
		return consent.Verdict{Decision: consent.Allowed, Sentence: d.By.String()}
	case policy.Asked:
		return consent.Verdict{Decision: consent.Asked, Sentence: d.By.String()}
	case policy.Refused:
	}
	return consent.Verdict{Decision: consent.Refused, Sentence: d.Reason + "; " + d.Remedy}
}

// Approves implements consent.Policy.
func (o Owner) Approves(approver, submitter string) error {
	return o.Policy.Approves(approver, submitter)
}

// onHost is a path of this host that a task names, without symbolic links as far as it is there.
func onHost(path string) []string {
	if path == "" {
		return nil
	}
	if followed, err := filepath.EvalSymlinks(path); err == nil {
		path = followed
	}
	return []string{filepath.Clean(path)}
}

// Guard has a host ask who asked for an assignment, and its owner.
type Guard struct{ *consent.Guard }

var _ work.Guard = Guard{}

// Consent implements work.Guard.
func (g Guard) Consent(ctx context.Context, h task.Hosted, t *task.Task) work.Answer {
	a := g.Ask(ctx, &h, t)
	switch a.Decision {
	case consent.Allowed, consent.Approved:
		return work.Answer{May: work.Yes, Image: a.Image}
	case consent.Asked:
		return work.Answer{May: work.NotYet, Why: a.Words}
	case consent.Refused:
	}
	return work.Answer{May: work.No, Why: a.Words}
}
