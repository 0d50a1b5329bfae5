package hostpaths

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/text"
)

// Command has swarmd follow paths of the host that it finds at a mount point.
const Command = "host-paths"

const (
	hostDir    = "/host" // where the helper has the host's files
	helperTime = 30 * time.Second
	leftTime   = 2 * helperTime // after which a helper is one that a killed SWOP left
	sweepTime  = 5 * time.Second
	maxHelpers = 16
	maxAnswer  = 2 * maxPaths * (maxBytes + 256)
)

// Run is Command: it prints where paths lead.
func Run(ctx context.Context, names []string, stdout, stderr io.Writer) int {
	all, err := hereBelow(hostDir).Resolve(ctx, names)
	if err == nil {
		err = json.NewEncoder(stdout).Encode(all)
	}
	if err != nil {
		fmt.Fprintln(stderr, text.Line(err.Error()))
		return 1
	}
	return 0
}

// Engine sees the host of a container engine, whose files this process does not: it is in a container, or on another machine. A helper of
// swarmd's own image looks at them, without a network and with the host's files read-only. It lasts for a moment.
type Engine struct {
	Open func(ctx context.Context) (*engine.Engine, error)
	// Image returns the ID of swarmd's own image.
	Image func(ctx context.Context, e *engine.Engine) (string, error)
	// Program is swarmd in the image.
	Program string
	// Node and Scope tell the helper from others' things.
	Node, Scope string
}

// Resolve implements Resolver.
func (r Engine) Resolve(ctx context.Context, names []string) (map[string]Lead, error) {
	if all := tooMany(names); all != nil {
		return all, nil
	}
	all, asked := map[string]Lead{}, make([]string, 0, len(names))
	for _, name := range names {
		if why := malformed(name); why != "" { // it would be no argument, or another one
			all[name] = Lead{Why: why}
			continue
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
		lead := said[name]
		if malformed(lead.At) != "" || path.Clean(lead.At) != lead.At {
			return nil, fmt.Errorf("look where paths of this host lead: its image gave no answer for %.200q", name)
		}
		all[name] = lead
	}
	return all, nil
}

// ask has a helper look.
func (r Engine) ask(ctx context.Context, names []string) (all map[string]Lead, err error) {
	ctx, cancel := context.WithTimeout(ctx, helperTime)
	defer cancel()
	e, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	said, err := r.run(ctx, e, names)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(said, &all); err != nil {
		return nil, fmt.Errorf("its image gave no answer: %w", err)
	}
	return all, nil
}

// run has a helper look, and returns what it printed.
func (r Engine) run(ctx context.Context, e *engine.Engine, names []string) ([]byte, error) {
	if err := r.sweep(ctx, e); err != nil {
		return nil, err
	}
	image, err := r.Image(ctx, e)
	if err != nil {
		return nil, err
	}
	config := r.helper(image, names)
	said, err := look(ctx, e, config, "/")
	if err != nil && strings.Contains(err.Error(), "not a shared or slave mount") {
		// Docker gives / only where its mounts follow the host's, and a host without systemd has it otherwise. This is the same directory.
		said, err = look(ctx, e, config, "/proc/self/root")
	}
	return said, err
}

// look has a helper look that has a directory of the host as the host's root.
func look(ctx context.Context, e *engine.Engine, config *container.Config, root string) ([]byte, error) {
	made, err := e.ContainerCreate(ctx, config, hostOf(root), nil, nil, "")
	if err != nil {
		return nil, engine.Explain(err)
	}
	defer func() { _ = remove(ctx, e, made.ID) }() // the next one sweeps
	streams, err := e.ContainerAttach(ctx, made.ID, container.AttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, engine.Explain(err)
	}
	defer context.AfterFunc(ctx, streams.Close)()
	defer streams.Close()
	if err := e.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return nil, engine.Explain(err)
	}
	var stdout, stderr bytes.Buffer
	if _, err := stdcopy.StdCopy(&stdout, &stderr, io.LimitReader(streams.Reader, maxAnswer)); err != nil || ctx.Err() != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	if why := strings.TrimSpace(stderr.String()); why != "" {
		return nil, errors.New(text.Clip(text.Line(why), maxBytes))
	}
	return stdout.Bytes(), nil
}

// helper is the container that looks.
func (r Engine) helper(image string, names []string) *container.Config {
	return &container.Config{
		Image: image, User: "0:0", WorkingDir: "/", Entrypoint: append([]string{r.Program, Command}, names...), AttachStdout: true, AttachStderr: true,
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
func (r Engine) sweep(ctx context.Context, e *engine.Engine) error {
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
		if time.Since(time.Unix(c.Created, 0)) < leftTime || short.Err() != nil || e.ContainerRemove(short, c.ID, container.RemoveOptions{Force: true}) != nil {
			left++
		}
	}
	if left >= maxHelpers {
		return fmt.Errorf("%d who look have not ended, as in mounts whose server does not answer: see docker ps -a --filter label=%s=%s", left, engine.LabelRole, engine.RoleProbe)
	}
	return nil
}

func remove(ctx context.Context, e *engine.Engine, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), helperTime)
	defer cancel()
	return e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
}
