package image

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/docker/client"
	"github.com/opencontainers/go-digest"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
)

// askLimit bounds how long a registry has to say what a tag stands for.
const askLimit = 20 * time.Second

// noSuchCall is what an engine says that does not have the call at all.
var noSuchCall = regexp.MustCompile(`^(Error response from daemon: )?(page not found|Not Found)$`)

// definite is what a registry says, or an engine of it, that does not pass by itself.
var definite = regexp.MustCompile(remedies[0].pattern.String() + "|" + refused.String() + `|x509:|server gave HTTP response to HTTPS client|invalid reference`)

// Image asks the registry which image a task's tag stands for, and fetches nothing. A name with a digest says it by itself. Where a registry
// does not say it the image is not known: whether it may be fetched by its name alone is for the owner of the host to decide.
func (p *Puller) Image(ctx context.Context, t *task.Task) (*policy.Image, error) {
	o, err := p.orderOf(t)
	if err != nil {
		return nil, err
	}
	login, err := p.login(o)
	if err != nil {
		return nil, err
	}
	if digested, ok := o.source.(reference.Digested); ok {
		return policy.NewImage(o.name, "", digested.Digest().String())
	}
	e, err := p.Open(ctx)
	if err != nil {
		return nil, work.EngineFails(err)
	}
	defer e.Close()
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	found, err := e.DistributionInspect(limited, reference.FamiliarString(o.source), login)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return policy.UnknownYet(o.name, fmt.Sprintf("registry %s did not say within %v what it stands for", reference.Domain(o.source), askLimit)), nil
	case err != nil && noSuchCall.MatchString(err.Error()):
		return policy.UnknownImage(o.name, "this host's engine, as Podman does, can't ask registries for digests: give the task a digest as its Tag"), nil
	case client.IsErrConnectionFailed(err):
		return nil, work.EngineFails(err)
	case err != nil:
		full := work.Explained(o.unfetched("ask for the digest of image", err))
		p.Log.WarnContext(ctx, "a registry does not say what the name of an image stands for", "task", t.Name, "image", o.name, "err", full)
		return o.unsaid(err), nil
	}
	image, err := policy.NewImage(o.name, "", found.Descriptor.Digest.String())
	if err != nil {
		return policy.UnknownImage(o.name, err.Error()), nil
	}
	return image, nil
}

// unsaid is the image of which a registry does not say what its name stands for, with why in this program's own words. What the engine says of
// it, as where it looked for the registry and by which proxy, is for its host.
func (o order) unsaid(err error) *policy.Image {
	why := fmt.Sprintf("registry %s does not say what it stands for", reference.Domain(o.source))
	if help := o.help(err.Error()); help != "" {
		why += ": " + help
	} else {
		why += ": the log of this host's SWOP has what the engine says"
	}
	if definite.MatchString(err.Error()) {
		return policy.UnknownImage(o.name, why)
	}
	return policy.UnknownYet(o.name, why)
}

// decided is the name of the image that was decided on: by its digest, or by its tag if nobody could tell what it stands for.
func (o order) decided(i *policy.Image) (reference.Named, error) {
	switch {
	case i == nil:
		return nil, errors.New("nobody has decided on its image")
	case len(i.Digests) == 0:
		return o.source, nil
	}
	d, err := digest.Parse(i.Digests[0])
	if err != nil {
		return nil, fmt.Errorf("the digest that was decided on: %w", err)
	}
	return reference.WithDigest(reference.TrimNamed(o.source), d)
}
