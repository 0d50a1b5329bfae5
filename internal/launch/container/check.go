package container

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Check finds what would keep a program from running, before anything depends on it: first what the engine knows of image,
// network, mounts and name, then, in a fresh container like the program's, whether its user can read the data and write the
// model, whether Python finds the swarmlearning package, and which GPUs are there. What is wrong is reported together, one a
// line, each with its remedy (engine.Error if it is one). It blocks for a second or two, 60 s at most, and leaves nothing
// behind.
func (l *Launcher) Check(ctx context.Context, spec Spec) error {
	_, err := l.Client(ctx, spec)
	return err
}

// Client is Check, and says which client the program has: launch.ClientOwn, or ClientOriginal if the Spec allows that.
func (l *Launcher) Client(ctx context.Context, spec Spec) (string, error) {
	spec, err := spec.complete()
	if err != nil {
		return "", fmt.Errorf("check ML program: %w", err)
	}
	if err := together(l.checkSockets(spec), l.checkImage(ctx, spec), l.checkNetwork(ctx, spec), l.checkVolumes(ctx, spec), l.checkName(ctx, spec)); err != nil {
		return "", fmt.Errorf("check ML program: %w", err)
	}
	r, err := l.probe(ctx, spec)
	if err != nil {
		return "", fmt.Errorf("check ML program: %w", err)
	}
	if spec.hasOriginal(r) {
		return launch.ClientOriginal, nil
	}
	return launch.ClientOwn, nil
}

func (l *Launcher) checkSockets(spec Spec) error {
	mounts, err := spec.mounts()
	if err != nil {
		return err
	}
	return refuseSockets(l.engine.DaemonHost(), mounts)
}

func (l *Launcher) checkImage(ctx context.Context, spec Spec) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := l.engine.ImageInspect(ctx, spec.Image)
	if errdefs.IsNotFound(err) {
		return errNoImage(spec.Image)
	}
	if err != nil {
		return engine.Explain(fmt.Errorf("look at image %s: %w", spec.Image, err))
	}
	return nil
}

// checkNetwork looks for a network of the user's; engines have the others.
func (l *Launcher) checkNetwork(ctx context.Context, spec Spec) error {
	name := spec.networkMode()
	switch {
	case name == "none", name == "host", name == "bridge", name == "default", strings.HasPrefix(name, "container:"):
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := l.engine.NetworkInspect(ctx, name, network.InspectOptions{})
	if errdefs.IsNotFound(err) {
		return errNoNetwork(name)
	}
	if err != nil {
		return engine.Explain(fmt.Errorf("look at network %s: %w", name, err))
	}
	return nil
}

// checkVolumes looks for the volumes that the user names: an engine would make empty ones, and leave them.
func (l *Launcher) checkVolumes(ctx context.Context, spec Spec) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var errs []error
	for _, text := range spec.Mounts {
		m, err := parseMount(text)
		if err != nil || !m.volume() {
			continue // an error of the Spec, reported by complete
		}
		_, err = l.engine.VolumeInspect(ctx, m.source)
		switch {
		case errdefs.IsNotFound(err):
			errs = append(errs, problem(fmt.Sprintf("create it (docker volume create %s), or give a path that begins with /", m.source),
				"bad mount --ml-v %s: there is no volume %s", text, m.source))
		case err != nil:
			errs = append(errs, engine.Explain(fmt.Errorf("look at volume %s: %w", m.source, err)))
		}
	}
	return together(errs...)
}

// checkName looks whether the name is free. A container of the node's own that bears it is for the daemon to adopt or to
// remove.
func (l *Launcher) checkName(ctx context.Context, spec Spec) error {
	if spec.Name == "" {
		return nil
	}
	found, err := l.inspect(ctx, spec.Name)
	switch {
	case errdefs.IsNotFound(err):
		return nil
	case err != nil:
		return engine.Explain(err)
	case strings.TrimPrefix(found.Name, "/") != spec.Name: // a prefix of some container's ID
		return nil
	}
	if d := describe(found); found.Config.Labels[engine.LabelRole] == engine.RoleML && d.Node == spec.Node && d.Scope == spec.Scope {
		return nil
	}
	return errName(spec.Name)
}
