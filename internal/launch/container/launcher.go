package container

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/pause"
)

// startLimit bounds the start of a container: an engine may have to wait for a disk.
const startLimit = 2 * time.Minute

// Launcher runs programs at an engine. Safe for concurrent use.
type Launcher struct {
	engine *engine.Engine
	log    *slog.Logger

	mu       sync.Mutex
	detected *capabilities // nil: not asked yet
}

// New returns a Launcher. The engine stays the caller's to close, after all programs have ended.
func New(e *engine.Engine, log *slog.Logger) *Launcher {
	return &Launcher{engine: e, log: log}
}

// Found is a container of an ML program that the engine has.
type Found struct {
	ID, Name              string
	Node, Scope, Platform string
	Incarnation           string
	State                 string    // created, running, paused, exited, …
	ExitCode              int       // if it has ended
	Started               time.Time // zero if it never was
	Finished              time.Time // zero if it was not started or runs
}

// Start runs a program. Errors carry a remedy (engine.Error) and leave nothing behind. It blocks while the engine makes the
// container. When ctx ends the program gets SIGTERM and, after the grace, SIGKILL. The caller must Wait, or receive from Done.
func (l *Launcher) Start(ctx context.Context, spec Spec) (*Program, error) {
	spec, err := spec.complete()
	if err != nil {
		return nil, fmt.Errorf("start ML program: %w", err)
	}
	l.sweep(ctx, spec.Node, spec.Scope, true) // who starts a node's program is its only daemon
	p, err := l.start(ctx, spec, engine.RoleML)
	if err != nil {
		return nil, fmt.Errorf("start ML program: %w", err)
	}
	return p, nil
}

func (l *Launcher) start(ctx context.Context, spec Spec, role string) (*Program, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	can, err := l.detect(ctx)
	if err != nil {
		return nil, err
	}
	id, err := l.launch(ctx, spec, role, can)
	if err != nil && can.init && lacksInit(err) {
		id, err = l.launch(ctx, spec, role, withoutInit(l, can, err))
	}
	if err != nil {
		return nil, explainStart(err, spec)
	}
	return l.watch(ctx, id, spec, false), nil
}

func withoutInit(l *Launcher, can capabilities, err error) capabilities {
	can.init = false
	l.mu.Lock()
	l.detected.init = false
	l.mu.Unlock()
	l.log.Debug("the engine has no init process for containers", "err", err)
	return can
}

// launch makes a container and starts it.
func (l *Launcher) launch(ctx context.Context, spec Spec, role string, can capabilities) (id string, err error) {
	if id, err = create(ctx, l, spec, role, can); err != nil {
		return "", err
	}
	if err = ctx.Err(); err == nil {
		calls, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit) // who breaks it off does not know whether it runs
		defer cancel()
		err = l.engine.ContainerStart(calls, id, container.StartOptions{})
	}
	if err != nil {
		if rmErr := l.remove(context.WithoutCancel(ctx), id); rmErr != nil {
			l.logger(spec).Warn("could not remove a container that did not start", "container", engine.ShortID(id), "err", rmErr)
		}
		return "", err
	}
	return id, nil
}

// create makes a container.
func create(ctx context.Context, l *Launcher, spec Spec, role string, can capabilities) (id string, err error) {
	if spec.Entrypoint, err = entrypoint(ctx, l.engine, spec); err != nil {
		return "", err
	}
	config, host, err := spec.config(role, can)
	if err != nil {
		return "", err
	}
	if err := refuseSockets(l.engine.DaemonHost(), host.Mounts); err != nil {
		return "", err
	}
	endpoint, err := spec.endpoint(role)
	if err != nil {
		return "", err
	}
	if can.podman {
		if err := missingSources(host.Mounts); err != nil {
			return "", err
		}
	}
	made, err := l.engine.ContainerCreate(ctx, config, host, endpoint, nil, spec.Name)
	if err != nil {
		l.removeIncarnation(ctx, spec, role)
		return "", err
	}
	for _, w := range made.Warnings {
		l.logger(spec).Debug("the container engine warns", "warning", oneLine(w))
	}
	return made.ID, nil
}

// entrypoint is a Spec's, or the image's where words come before it: with an entrypoint of the caller's an engine leaves the image's out.
func entrypoint(ctx context.Context, at *engine.Engine, spec Spec) ([]string, error) {
	if len(spec.Front) == 0 || len(spec.Entrypoint) > 0 || !spec.custom() {
		return spec.Entrypoint, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	image, err := at.ImageInspect(ctx, spec.Image)
	if err != nil {
		return nil, fmt.Errorf("look for the entrypoint of image %s: %w", spec.Image, err)
	}
	if image.Config == nil {
		return nil, nil
	}
	return image.Config.Entrypoint, nil
}

// watch follows a container's program until it ends.
func (l *Launcher) watch(ctx context.Context, id string, spec Spec, adopted bool) *Program {
	uid, gid := ids(spec.User)
	out := launch.NewOutput(launch.OutputConfig{
		Line: spec.Line, LogTail: spec.LogTail, LogFile: spec.LogFile, Owner: &launch.Owner{UID: uid, GID: gid},
	})
	own, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	p := &Program{
		launcher: l, id: id, incarnation: spec.Incarnation, log: l.logger(spec), spec: spec, adopted: adopted, giveUp: giveUp,
		out: out, logs: newLogs(l.engine, id, out, spec.LogSince).telling(spec.Delivered), done: make(chan struct{}),
	}
	go func() {
		defer giveUp()
		p.run(own)
	}()
	go func() {
		select {
		case <-p.done:
		case <-ctx.Done():
			p.Stop(spec.Grace)
		}
	}()
	return p
}

func (l *Launcher) logger(spec Spec) *slog.Logger {
	if spec.Log != nil {
		return spec.Log
	}
	return l.log
}

// Find lists the containers of a node's programs, in whatever state. It touches nothing.
func (l *Launcher) Find(ctx context.Context, node, scope string) ([]Found, error) {
	if scope == "" {
		scope = engine.OSScope()
	}
	list, err := l.list(ctx, engine.RoleML, node, scope)
	if err != nil {
		return nil, engine.Explain(fmt.Errorf("find ML containers: %w", err))
	}
	found := make([]Found, 0, len(list))
	for _, c := range list {
		details, err := l.inspect(ctx, c.ID)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, engine.Explain(fmt.Errorf("find ML containers: %w", err))
		}
		found = append(found, describe(details))
	}
	return found, nil
}

func describe(c container.InspectResponse) Found {
	labels := c.Config.Labels
	f := Found{
		ID: c.ID, Name: strings.TrimPrefix(c.Name, "/"), Node: labels[engine.LabelNode], Scope: labels[engine.LabelScope],
		Platform: labels[engine.LabelPlatform], Incarnation: labels[engine.LabelIncarnation], State: c.State.Status,
		Started: engineTime(c.State.StartedAt),
	}
	if over(c.State) {
		f.ExitCode, f.Finished = c.State.ExitCode, engineTime(c.State.FinishedAt)
	}
	return f
}

// engineTime reads a time of an inspection; engines write the year 1 for never.
func engineTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

func (l *Launcher) list(ctx context.Context, role, node, scope string, more ...filters.KeyValuePair) ([]container.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	which := filters.NewArgs(append(more,
		filters.Arg("label", engine.LabelRole+"="+role), filters.Arg("label", engine.LabelNode+"="+node), filters.Arg("label", engine.LabelScope+"="+scope),
	)...)
	list, err := l.engine.ContainerList(ctx, container.ListOptions{All: true, Filters: which})
	if err != nil {
		return nil, err
	}
	// What is removed without asking is looked at twice.
	var own []container.Summary
	for _, c := range list {
		if c.Labels[engine.LabelRole] != role || c.Labels[engine.LabelNode] != node || c.Labels[engine.LabelScope] != scope {
			continue
		}
		if inherited, err := l.engine.Inherited(ctx, c.Labels, c.ImageID); err != nil {
			return nil, err
		} else if !inherited {
			own = append(own, c)
		}
	}
	return own, nil
}

// Adopt watches a container that an earlier daemon started, running or ended: its output goes on behind Spec.LogSince, and ctx
// is as for Start. Of the Spec it uses Line, LogTail, LogFile, User, Grace, Log, Delivered and LogSince. One that was never started is
// an error: it is for Remove.
func (l *Launcher) Adopt(ctx context.Context, f Found, spec Spec) (*Program, error) {
	details, err := l.ours(ctx, f)
	if err != nil {
		return nil, engine.Explain(fmt.Errorf("adopt ML program: %w", err))
	}
	if details.State.Status == container.StateCreated {
		return nil, fmt.Errorf("adopt ML program: container %s was never started", engine.ShortID(f.ID))
	}
	if spec.User, err = completeUser(spec.User); err != nil {
		return nil, fmt.Errorf("adopt ML program: %w", err)
	}
	if spec.Grace <= 0 {
		spec.Grace = defaultGrace
	}
	spec.Incarnation = describe(details).Incarnation
	l.sweep(ctx, f.Node, f.Scope, true)
	return l.watch(ctx, f.ID, spec, true), nil
}

// ours looks at a container and makes sure that it is the one that was found: of an ML program, node and scope alike.
func (l *Launcher) ours(ctx context.Context, f Found) (container.InspectResponse, error) {
	details, err := l.inspect(ctx, f.ID)
	if err != nil {
		return details, err
	}
	labels := details.Config.Labels
	if labels[engine.LabelRole] != engine.RoleML || labels[engine.LabelNode] != f.Node || labels[engine.LabelScope] != f.Scope || f.Scope == "" {
		return details, fmt.Errorf("container %s is not an ML program of node %s", engine.ShortID(f.ID), f.Node)
	}
	return details, nil
}

// Remove stops a program that Find found, with ten seconds of grace, and removes its container. One that is gone is no error.
func (l *Launcher) Remove(ctx context.Context, f Found) error {
	details, err := l.ours(ctx, f)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err == nil && details.State.Running {
		seconds := int(defaultGrace / time.Second)
		err = l.engine.ContainerStop(ctx, f.ID, container.StopOptions{Timeout: &seconds})
		if errdefs.IsNotFound(err) {
			return nil
		}
	}
	if err == nil {
		err = l.remove(ctx, f.ID)
	}
	if err != nil {
		return engine.Explain(fmt.Errorf("remove container %s: %w", engine.ShortID(f.ID), err))
	}
	return nil
}

// remove removes a container and what it alone uses, and kills what runs in it. It blocks until the container is gone, and
// tries again for a while when the engine is away.
func (l *Launcher) remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for {
		err := l.engine.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if errdefs.IsNotFound(err) {
			return nil
		}
		// After success, or while another removes it, the next round finds it gone.
		if pause.For(ctx, minPause/4) != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// removeIncarnation removes what a failed call may have made after all.
func (l *Launcher) removeIncarnation(ctx context.Context, spec Spec, role string) {
	ctx = context.WithoutCancel(ctx)
	list, err := l.list(ctx, role, spec.Node, spec.Scope, filters.Arg("label", engine.LabelIncarnation+"="+spec.Incarnation))
	if err != nil {
		return // the engine is away; the next Find shows it
	}
	for _, c := range list {
		_ = l.remove(ctx, c.ID)
	}
}

// sweep removes containers of checks that a killed daemon left: those that are older than any check lasts, or all.
func (l *Launcher) sweep(ctx context.Context, node, scope string, all bool) {
	list, err := l.list(ctx, engine.RoleProbe, node, scope)
	if err != nil {
		return // what is asked next says it
	}
	for _, c := range list {
		if !all && time.Since(time.Unix(c.Created, 0)) < 2*probeLimit {
			continue
		}
		if err := l.remove(ctx, c.ID); err != nil {
			l.log.Warn("could not remove the container of an old check", "container", engine.ShortID(c.ID), "err", err)
		}
	}
}
