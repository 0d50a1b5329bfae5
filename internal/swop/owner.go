package swop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/secret"
)

// Owner asks the policy of a host's owner.
type Owner struct {
	Policy  *policy.Policy
	SwarmID func() string
	Recent  hostpaths.Resolver // as Place has it, and may be old by a minute
	// Earlier finds the assignments that the host has had before one, and still has; nil: it has none.
	Earlier func(h *task.Hosted) []task.Hosted
	Place
}

// Place is where tasks run.
type Place struct {
	Process bool               // RUN_SWARM starts processes
	Afar    bool               // this process sees no files of that host
	Local   bool               // the swarm is one of `swarmctl local`
	Profile *taskfile.Profile  // of that host
	Paths   hostpaths.Resolver // of that host
	Own     []string           // paths of that host which no task is given
	Secrets secret.Dir         // of that host
}

var _ consent.Policy = Owner{}

// Words say what the owner has decided, for the log. A swarm of `swarmctl local` is its owner's alone.
func (o Owner) Words() string {
	if o.Local && o.Process && o.Policy.None() {
		return "no policy: this swarm is on this machine alone, and runs programs on it as processes, without a container. It binds no path of this host that a task names"
	}
	return o.Policy.String()
}

// Decide implements consent.Policy. Where somebody may soon know which image it is, that is waited for before the task is refused for it, or
// somebody is asked without it.
func (o Owner) Decide(ctx context.Context, by string, h *task.Hosted, t *task.Task, image *policy.Image) consent.Verdict {
	v, asked := o.keeps(ctx, by, h, t, image)
	if v.Decision == consent.Allowed || v.Decision == consent.Asked {
		if no := o.hasSecrets(asked); no.Decision != consent.Allowed {
			v = no
		}
	}
	if image != nil && image.Passes && (v.Decision == consent.Asked || v.Decision == consent.Refused && o.Hopes(by, h, t).Decision != consent.Refused) {
		v.Soon = "image " + image.String()
	}
	return v
}

// Keeps implements consent.Policy. What runs has its secrets: it goes on whatever has become of their files since.
func (o Owner) Keeps(ctx context.Context, by string, h *task.Hosted, t *task.Task, image *policy.Image) consent.Verdict {
	v, _ := o.keeps(ctx, by, h, t, image)
	return v
}

func (o Owner) keeps(ctx context.Context, by string, h *task.Hosted, t *task.Task, image *policy.Image) (v consent.Verdict, a asked) {
	a, err := o.asked(by, h, t)
	if err != nil {
		return unreadable(err), a
	}
	if image != nil {
		a.image(image.Each(), false)
	}
	return o.shared(ctx, a), a
}

// Hopes implements consent.Policy. The name of an image that is to be fetched is known.
func (o Owner) Hopes(by string, h *task.Hosted, t *task.Task) consent.Verdict {
	asked, err := o.asked(by, h, t)
	if err != nil {
		return unreadable(err)
	}
	if asked.images {
		asked.image(asked.hoped(), true)
	}
	return o.hopes(asked)
}

// asked is what a policy is asked about a task.
type asked struct {
	all    []policy.Request    // of which the one counts that it lets least through
	paths  []string            // of the host, as the task names them
	images bool                // the task has images, which somebody finds
	names  []string            // of them, where the task says it
	homes  map[string][]string // by secret: the images of those that have it here
}

// hoped is the image of which only the name is known, if at all.
func (a *asked) hoped() (all []policy.Image) {
	for _, name := range a.names {
		all = append(all, policy.Image{Name: name})
	}
	if len(all) == 0 {
		return []policy.Image{{}}
	}
	return all
}

// image has each of the task's images judged, with the secrets that it has.
func (a *asked) image(images []policy.Image, hoped bool) {
	var all []policy.Request
	for _, r := range a.all {
		for _, i := range images {
			with := r
			with.Image, with.AnyImage, with.Secrets = i, hoped, a.secretsIn(i, r.Secrets, images)
			all = append(all, with)
		}
	}
	a.all = all
}

// secretsIn are those of secrets that are judged with an image, one of all. One that another image alone has is not. Where an image that has it
// is not among them it is judged with each.
func (a *asked) secretsIn(image policy.Image, secrets []string, all []policy.Image) (in []string) {
	for _, name := range secrets {
		homes := a.homes[name]
		missing := func(home string) bool {
			return !slices.ContainsFunc(all, func(i policy.Image) bool { return i.Name == home })
		}
		if slices.Contains(homes, image.Name) || len(homes) == 0 || slices.ContainsFunc(homes, missing) {
			in = append(in, name)
		}
	}
	return in
}

// asked reads a task.
func (o Owner) asked(by string, h *task.Hosted, t *task.Task) (a asked, err error) {
	if t.Type == task.RunJob {
		return o.running(o.request(by, h, t), h, t)
	}
	body, err := taskfile.ReadBody(t.Type, t.Definition)
	if err != nil {
		return a, err
	}
	r := o.request(by, h, t)
	switch b := body.(type) {
	case taskfile.MakeUserContainer:
		a.all, err = building(r, b)
		return a, err
	case taskfile.MakeSwarmUserContent:
		a.all, err = fetching(r, b)
		return a, err
	case taskfile.PullImage:
		a.images, a.names = true, []string{b.Image()}
	case taskfile.RunSwarm:
		if o.Process {
			r.Runtime = policy.Process
		}
		r.Held = !o.Process
		r.GPUs, r.AllGPUs = o.Profile.GPUs()
		r.Volumes = b.Shared(taskfile.Volume)
		a.images, a.paths = true, b.Shared(taskfile.Bind)
	}
	a.all = []policy.Request{r}
	return a, nil
}

// judged is what the policy says to requests, of which the one counts that it lets least through. Volumes with identities of this host's SLs are
// given to nobody.
func (o Owner) judged(all ...policy.Request) consent.Verdict {
	for _, v := range o.Profile.IdentityVolumes() {
		if slices.Contains(all[0].Volumes, v) { // all name the same
			return consent.Verdict{Decision: consent.Refused, Sentence: fmt.Sprintf("it asks for the volume %.200q, which has the identity of an SL of this host: name another volume in the task", v)}
		}
	}
	least := o.Policy.Decide(all[0])
	for _, r := range all[1:] {
		if d := o.Policy.Decide(r); d.Verdict < least.Verdict {
			least = d
		}
	}
	return verdictOf(least)
}

// request is what the policy gets to know of each task.
func (o Owner) request(by string, h *task.Hosted, t *task.Task) policy.Request {
	return policy.Request{
		Submitter: by, Swarm: o.SwarmID(), Taskrunner: h.Taskrunner, Task: t.Name, Type: t.Type, Digest: t.Digest, Outcome: t.Outcome, Runtime: "docker", Local: o.Local,
		Hours: float64(h.TimeoutMS) / float64(time.Hour/time.Millisecond), // a Duration might not hold it
	}
}

// volumesOf are the engine's volumes that a task names.
func volumesOf(body taskfile.Body, outcome string) []string {
	switch b := body.(type) {
	case taskfile.RunSwarm:
		return b.Shared(taskfile.Volume)
	case taskfile.MakeUserContainer:
		return []string{b.BuildContext}
	case taskfile.MakeSwarmUserContent:
		return []string{outcome}
	}
	return nil
}

func verdictOf(d policy.Decision) consent.Verdict {
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

// Guard has a host ask who asked for an assignment, and its owner.
type Guard struct {
	*consent.Guard

	Owner Owner
}

var _ work.Guard = Guard{}

// Until implements work.Guard: the hours of the policy count from when the host began.
func (g Guard) Until(assignment string, epoch uint32) (at time.Time, why string) {
	hours, began := g.Owner.Policy.Terms().Hours, g.Began(assignment, epoch)
	if hours == 0 || began.IsZero() {
		return time.Time{}, ""
	}
	return began.Add(time.Duration(hours * float64(time.Hour))), fmt.Sprintf("the policy of its host ends tasks after %v hours", hours)
}

// Consent implements work.Guard.
func (g Guard) Consent(ctx context.Context, h task.Hosted, t *task.Task) work.Answer {
	said := g.answer(h, g.Ask(ctx, &h, t))
	if said.May != work.Yes {
		return said
	}
	grant, v := g.Owner.Grant(ctx, t)
	if gets := g.answer(h, g.Gets(&h, v)); gets.May != work.Yes {
		return gets
	}
	said.Grant = grant
	return said
}

// Stays implements work.Guard.
func (g Guard) Stays(ctx context.Context, h task.Hosted, t *task.Task) work.Answer {
	return g.answer(h, g.Guard.Stays(ctx, &h, t))
}

// Tells implements work.Guard: whoever has asked for it must be one to whom logs may go.
func (g Guard) Tells(assignment string) bool {
	by := g.AskedBy(assignment)
	return by != "" && g.Owner.Policy.LogsTo(by) == nil
}

func (g Guard) answer(h task.Hosted, a consent.Answer) work.Answer {
	said := work.Answer{May: work.No, Why: a.Words, Since: g.Received(h.ID)}
	switch a.Decision {
	case consent.Allowed, consent.Approved:
		said.May, said.Why, said.Image = work.Yes, "", a.Image
	case consent.Asked, consent.Later:
		said.May = work.NotYet
	case consent.Refused:
	}
	return said
}
