package component

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/terminal"
)

// cleanLimit bounds the removal of what a failed start has made, after ctx has ended too.
const cleanLimit = 15 * time.Second

const jsonFile = "json-file" // Docker's usual way to keep logs

// startLimit bounds the engine's starting of a container.
const startLimit = 2 * time.Minute

// Run makes the component's container, starts it, and shows its output until it ends, or prints its ID and leaves it
// running if it is detached. exit is the component's exit code, 0 for a detached one. What an earlier container of the same
// node left behind is removed first; one that runs is an error. When ctx ends before the start nothing is left; after it an
// attached component is stopped, gracefully, and Run returns when it has ended. Errors carry a remedy (engine.Explain).
func Run(ctx context.Context, e *engine.Engine, s Spec, user IO) (exit int, err error) {
	l, err := newLauncher(ctx, e, s, user)
	if err != nil {
		return 0, err
	}
	if err := l.reconcile(ctx); err != nil {
		return 0, err
	}
	if err := l.create(ctx); err != nil {
		return 0, l.undo(ctx, err)
	}
	if l.spec.Detach {
		if err := l.start(ctx); err != nil {
			return 0, l.undo(ctx, err)
		}
		_, err := fmt.Fprintln(user.Stdout, l.id)
		return 0, err
	}
	return l.attached(ctx)
}

// launcher is one run.
type launcher struct {
	engine *engine.Engine
	spec   Spec
	host   host
	plan   *plan
	io     IO
	log    *slog.Logger

	id   string   // of the container that was made
	made []string // volumes that were made for it
}

func newLauncher(ctx context.Context, e *engine.Engine, s Spec, user IO) (*launcher, error) {
	if user.Getenv == nil {
		user.Getenv = os.Getenv
	}
	if s.Scope == "" {
		s.Scope = engine.Scope(user.Getenv)
	}
	isTerminal := terminal.Is(user.Stdin)
	s.Options = s.Terminal(isTerminal)
	if s.TTY && s.Interactive && !s.Detach && !isTerminal {
		return nil, errors.New("-t: standard input is no terminal: leave -t out, or give -d")
	}
	l := &launcher{engine: e, spec: s, host: thisHost(ctx, user.Getenv), io: user, log: user.Log}
	if s.StateDir != "" {
		if err := os.MkdirAll(s.StateDir, 0o700); err != nil {
			return nil, fmt.Errorf("--state-dir: %w", err)
		}
	}
	if s.BridgeDir != "" && s.EngineSocket {
		if err := checkLink(filepath.Dir(s.BridgeDir)); err != nil {
			return nil, err
		}
	}
	image, err := e.ImageInspect(ctx, s.ImageName(user.Getenv))
	if err != nil {
		return nil, engine.Explain(fmt.Errorf("look for the image of %s: %w", l.what(), err))
	}
	if image.Config != nil {
		l.host.imageUser = image.Config.User
		if role := image.Config.Labels[engine.LabelRole]; role != "" { // nobody could tell the component from others of the image
			return nil, &engine.Error{
				Err:  fmt.Errorf("image %s bears a label that only swarmd's containers have: %s=%s", s.ImageName(user.Getenv), engine.LabelRole, role),
				Help: "build it without, not by docker commit from a component: make image",
			}
		}
	}
	if err := l.findServer(ctx); err != nil {
		return nil, err
	}
	if l.plan, err = build(l.spec, l.host); err != nil {
		return nil, err
	}
	l.plan.host.LogConfig, err = l.logging(ctx)
	return l, err
}

// logging bounds what the engine keeps of a component's output, of which an SL's program can have as much as it likes, where
// the engine writes files that would fill its disk. Other ways of keeping logs have their own bounds.
func (l *launcher) logging(ctx context.Context) (container.LogConfig, error) {
	info, err := l.engine.Info(ctx)
	if err != nil {
		return container.LogConfig{}, engine.Explain(fmt.Errorf("ask the container engine what it can do: %w", err))
	}
	if info.LoggingDriver != jsonFile {
		return container.LogConfig{}, nil
	}
	return container.LogConfig{Type: jsonFile, Config: map[string]string{"max-size": "20m", "max-file": "5"}}, nil
}

// what names the component for people.
func (l *launcher) what() string {
	if l.spec.Node == "" {
		return l.spec.Role
	}
	return l.spec.Role + " " + l.spec.Node
}

// create makes volumes and container, and puts into them what the component finds at its start.
func (l *launcher) create(ctx context.Context) error {
	for _, name := range l.plan.volumes {
		if err := l.volume(ctx, name); err != nil {
			return err
		}
	}
	p := l.plan
	created, err := l.engine.ContainerCreate(ctx, p.config, p.host, p.network, nil, p.name)
	if err != nil {
		return engine.Explain(fmt.Errorf("create container of %s: %w", l.what(), err))
	}
	l.id = created.ID
	for _, w := range created.Warnings {
		l.log.Warn("the container engine warns", "warning", w)
	}
	return l.fill(ctx)
}

// start starts the container. An end of ctx during the call is not passed on: nobody could report whether the container runs.
func (l *launcher) start(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("start %s: %w", l.what(), context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := l.engine.ContainerStart(ctx, l.id, container.StartOptions{}); err != nil {
		return engine.Explain(fmt.Errorf("start %s: %w", l.what(), err))
	}
	return nil
}

// undo removes what create has made and returns why, since the component has never run.
func (l *launcher) undo(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*cleanLimit)
	defer cancel()
	if l.id != "" {
		if err := l.remove(ctx, l.id, true); err != nil {
			l.log.Warn("the container stays behind", "container", engine.ShortID(l.id), "err", err)
		}
	}
	for _, v := range l.made {
		if err := l.engine.VolumeRemove(ctx, v, false); err != nil && !errdefs.IsNotFound(err) {
			l.log.Warn("the volume stays behind", "volume", v, "err", err)
		}
	}
	return why
}
