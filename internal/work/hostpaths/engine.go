package hostpaths

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

const (
	helperTime = 30 * time.Second
	leftTime   = 2 * helperTime // after which a helper is one that a killed SWOP left
	sweepTime  = 5 * time.Second
	maxHelpers = 16 // that can't be removed
)

// Engine sees the host of a container engine, whose files this process does not: it is in a container, or on another machine. A helper of
// swarmd's own image looks at them, without a network and with the host's files read-only. It lasts for a moment, or until what it looks at
// answers: no other one looks there before. It is safe for concurrent use.
type Engine struct {
	Open func(ctx context.Context) (*engine.Engine, error)
	// Image returns the ID of swarmd's own image.
	Image func(ctx context.Context, e *engine.Engine) (string, error)
	// Program is swarmd in the image.
	Program string
	// Node and Scope tell the helper from others' things.
	Node, Scope string

	looks looks
	send  func(ctx context.Context, args []string, sent func(id string)) (*helper, error) // nil: start
}

// Resolve implements Resolver. A place that does not answer is an error, and is not looked at again before it does.
func (r *Engine) Resolve(ctx context.Context, names []string) (map[string]Lead, error) {
	if all := tooMany(names); all != nil {
		return all, nil
	}
	all, asked := map[string]Lead{}, make([]string, 0, len(names))
	for _, name := range names {
		if why := malformed(name); why != "" { // it would be no argument, or another one
			all[name] = Lead{Why: why}
			continue
		}
		if r.looks.isStuck(name) {
			return nil, fmt.Errorf("look at path %.200q: %w", name, errStuck)
		}
		asked = append(asked, name)
	}
	if len(asked) == 0 {
		return all, nil
	}
	said, err := r.ask(ctx, asked)
	if err != nil {
		return nil, fmt.Errorf("look where paths of this host lead: %w", err)
	}
	for _, name := range asked {
		all[name] = said[name]
	}
	return all, nil
}

// ask has a helper look.
func (r *Engine) ask(ctx context.Context, names []string) (map[string]Lead, error) {
	waiting, cancel := inTime(ctx)
	defer cancel()
	l, err := r.looks.begin(waiting)
	if err != nil {
		return nil, err
	}
	ctx, cancel = inTime(ctx) // one that is cut short would not say where it is stuck
	defer cancel()
	args := make([]string, 0, len(names))
	for _, place := range r.looks.places() {
		args = append(args, notAt+place)
	}
	send := r.send
	if send == nil {
		send = r.start
	}
	h, err := send(ctx, append(args, names...), func(id string) { r.looks.sent(l, id) })
	if err != nil {
		r.looks.end(l)
		return nil, err
	}
	var said answer
	select {
	case said = <-h.said:
		err = said.check(names)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil || said.Stuck == "" {
		h.remove()
		r.looks.end(l)
		return said.Leads, err
	}
	r.looks.giveUp(l, said.Stuck)
	go func() { // it outlives the call, as what it is about does
		<-h.ended
		h.remove()
		r.looks.end(l)
	}()
	return nil, &stuckError{said.Stuck, l.ended, fmt.Errorf("no answer within %v", lookTime)}
}

func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, helperTime, fmt.Errorf("no answer within %v", helperTime))
}

// start has a helper look, in a container.
func (r *Engine) start(ctx context.Context, args []string, sent func(id string)) (*helper, error) {
	e, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	h, err := r.startAt(ctx, e, args, sent)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return h, nil
}

func (r *Engine) startAt(ctx context.Context, e *engine.Engine, args []string, sent func(id string)) (*helper, error) {
	if err := r.sweep(ctx, e); err != nil {
		return nil, err
	}
	image, err := r.Image(ctx, e)
	if err != nil {
		return nil, err
	}
	config := r.helper(image, args)
	h, err := look(ctx, e, config, "/", sent)
	if err != nil && strings.Contains(err.Error(), "not a shared or slave mount") {
		// Docker gives / only where its mounts follow the host's, and a host without systemd has it otherwise. This is the same directory.
		h, err = look(ctx, e, config, "/proc/self/root", sent)
	}
	return h, err
}

// look starts a helper that has a directory of the host as the host's root. It has the engine to itself from then on.
func look(ctx context.Context, e *engine.Engine, config *container.Config, root string, sent func(id string)) (*helper, error) {
	made, err := e.ContainerCreate(ctx, config, hostOf(root), nil, nil, "")
	if err != nil {
		return nil, engine.Explain(err)
	}
	sent(made.ID)
	streams, err := e.ContainerAttach(ctx, made.ID, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		remove(ctx, e, made.ID)
		return nil, engine.Explain(err)
	}
	if err := e.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		streams.Close()
		remove(ctx, e, made.ID)
		return nil, engine.Explain(err)
	}
	return hear(streams.Reader, func() {
		streams.Close()
		remove(ctx, e, made.ID)
		_ = e.Close()
	}), nil
}

// helper is the container that looks.
func (r *Engine) helper(image string, args []string) *container.Config {
	return &container.Config{
		Image: image, User: "0:0", WorkingDir: "/", Entrypoint: append([]string{r.Program, Command}, args...), AttachStdout: true, AttachStderr: true,
		AttachStdin: true, OpenStdin: true, StdinOnce: true, // it ends with this process
		Labels: map[string]string{engine.LabelRole: engine.RoleProbe, engine.LabelNode: r.Node, engine.LabelScope: r.Scope, engine.LabelIncarnation: Command},
	}
}

// hostOf is what the helper has of the host.
func hostOf(root string) *container.HostConfig {
	pids := int64(64)
	return &container.HostConfig{
		NetworkMode: "none", ReadonlyRootfs: true, CapDrop: []string{"ALL"}, CapAdd: []string{"DAC_READ_SEARCH"}, // the host's directories may be closed to others
		SecurityOpt: []string{"no-new-privileges", "label=disable"}, Resources: container.Resources{PidsLimit: &pids},
		Mounts: []mount.Mount{{Type: mount.TypeBind, Source: root, Target: hostDir, ReadOnly: true}},
	}
}

// sweep removes helpers that a killed SWOP left, or that did not end. Those that can't be removed are bounded, and in nobody's way before.
func (r *Engine) sweep(ctx context.Context, e *engine.Engine) error {
	all, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", engine.LabelRole+"="+engine.RoleProbe), filters.Arg("label", engine.LabelScope+"="+r.Scope),
		filters.Arg("label", engine.LabelNode+"="+r.Node), filters.Arg("label", engine.LabelIncarnation+"="+Command),
	)})
	if err != nil {
		return engine.Explain(err)
	}
	short, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	left := 0
	for _, c := range all {
		if r.looks.looksOn(c.ID) {
			continue
		}
		if time.Since(time.Unix(c.Created, 0)) < leftTime || short.Err() != nil || e.ContainerRemove(short, c.ID, container.RemoveOptions{Force: true}) != nil {
			left++
		}
	}
	if left >= maxHelpers {
		return fmt.Errorf("%d who look have not ended, as in mounts whose server does not answer: see docker ps -a --filter label=%s=%s", left, engine.LabelRole, engine.RoleProbe)
	}
	return nil
}

// remove removes a helper. If it can't be, the next one sweeps.
func remove(ctx context.Context, e *engine.Engine, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), helperTime)
	defer cancel()
	_ = e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
}
