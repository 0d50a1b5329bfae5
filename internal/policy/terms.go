package policy

import "time"

// Terms are what an owner gives to a task that it lets through: what carries it out holds it to them.
type Terms struct {
	Limits

	// Network is whether it has the engine's own network, which is named bridge.
	Network bool
	// Host is whether it may use the host's own network, and so reach what listens for this host alone: host stands under networks.
	Host bool
	// NoGPUs is whether what can't be held to a number of GPUs, such as a build, has none: gpus stands in the policy.
	NoGPUs bool
	// Disk is how many bytes members of jobs may say they write; 0: no limit.
	Disk int64
	// Artifacts is how many bytes of what members of jobs leave are kept, and ArtifactsAge how long; 0: the policy does not say.
	Artifacts    int64
	ArtifactsAge time.Duration
}

// bridge is the network that engines give to what names none.
const bridge = "bridge"

// Terms returns those of tasks that the policy does not refuse.
func (p *Policy) Terms() Terms {
	own := p.kind == written
	return Terms{
		Limits: p.limits.held, Network: !own || listed(p.limits.networks, bridge), Host: own && listed(p.limits.networks, "host"), NoGPUs: own && p.limits.gpus >= 0,
		Disk: p.limits.disk, Artifacts: p.limits.artifacts, ArtifactsAge: p.limits.artifactsAge,
	}
}

// Fetches reports whether an image may be fetched so that a task can be carried out: if a task of its own that fetches it were let through
// with no more asking.
func (p *Policy) Fetches(r Request, image string) bool {
	r.Image = Image{Name: image}
	own := p.Decide(r).Verdict
	r.Type, r.Outcome, r.Volumes = "PULL_IMAGE", image, nil
	verdict := p.Decide(r).Verdict
	return own != Refused && verdict >= own
}

// GPUs is how many GPUs a task has at most, if the policy limits them.
func (p *Policy) GPUs() (most int, limited bool) {
	return p.limits.gpus, p.kind == written && p.limits.gpus >= 0
}
