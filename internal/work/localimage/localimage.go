// Package localimage finds images that an engine has, and holds what runs to the one that was decided on.
package localimage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
)

// OfName finds the image of a name at an engine, and fetches nothing. missing is the error if there is none.
func OfName(ctx context.Context, e *engine.Engine, name string, missing error) (*policy.Image, error) {
	found, err := e.ImageInspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		return nil, missing
	case err != nil:
		return nil, work.EngineFails(engine.Explain(fmt.Errorf("look for image %.200s: %w", name, err)))
	}
	return policy.NewImage(name, found.ID, digestsOf(found.RepoDigests)...)
}

// digestsOf are the digests by which registries know an image, each once, from names with them.
func digestsOf(names []string) (all []string) {
	seen := map[string]bool{}
	for _, name := range names {
		if _, d, ok := strings.Cut(name, "@"); ok && !seen[d] {
			all, seen[d] = append(all, d), true
		}
	}
	return all
}

// Decided is the ID of the image that was decided on, of several that of a name, if the engine still has it.
func Decided(ctx context.Context, e *engine.Engine, j work.Job, name string) (string, error) {
	if name != "" {
		j.Image = j.Image.Of(name)
	}
	if j.Image == nil || j.Image.ID == "" || len(j.Image.Others) > 0 {
		return "", errors.New("nobody has decided on its image")
	}
	found, err := e.ImageInspect(ctx, j.Image.ID)
	switch {
	case errdefs.IsNotFound(err):
		return "", &engine.Error{
			Err:  fmt.Errorf("this host no longer has the image that was decided on, %s", j.Image),
			Help: "assign the task anew, which looks for the image anew, once the task that makes it was carried out here again",
		}
	case err != nil:
		return "", engine.Explain(fmt.Errorf("look for image %s: %w", j.Image.Name, err))
	case found.ID != j.Image.ID: // an ID may be taken for the name of another image
		return "", fmt.Errorf("the engine has image %s in the place of the one that was decided on, %s", found.ID, j.Image)
	}
	return found.ID, nil
}
