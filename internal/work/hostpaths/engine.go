package hostpaths

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	maxAnswer  = 2 * maxPaths * maxBytes
)

// Run is Command: it prints where paths lead.
func Run(names []string, stdout, stderr io.Writer) int {
	all, err := walkAll(hostDir, names)
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
	Open  func(ctx context.Context) (*engine.Engine, error)
	Image string // swarmd's
	// Program is swarmd in the image.
	Program string
	// Node and Scope tell the helper from others' things.
	Node, Scope string
}

// Resolve returns where each path leads, by its name.
func (r Engine) Resolve(ctx context.Context, names []string) (map[string]string, error) {
	if len(names) > maxPaths {
		return walkAll(hostDir, names) // which says so
	}
	for _, name := range names {
		if err := absolute(name); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, helperTime)
	defer cancel()
	e, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	said, err := r.run(ctx, e, names)
	if err != nil {
		return nil, fmt.Errorf("look where paths of this host lead: %w", err)
	}
	all := map[string]string{}
	if err := json.Unmarshal(said, &all); err != nil {
		return nil, fmt.Errorf("look where paths of this host lead: its image gave no answer: %w", err)
	}
	for _, name := range names {
		if err := absolute(all[name]); err != nil {
			return nil, fmt.Errorf("look where path %.200q of this host leads: no answer", name)
		}
	}
	return all, nil
}

// run has a helper look, and returns what it printed.
func (r Engine) run(ctx context.Context, e *engine.Engine, names []string) ([]byte, error) {
	if err := r.sweep(ctx, e); err != nil {
		return nil, err
	}
	said, err := r.look(ctx, e, names, "/")
	if err != nil && strings.Contains(err.Error(), "not a shared or slave mount") {
		// Docker gives / only where its mounts follow the host's, and a host without systemd has it otherwise. This is the same directory.
		said, err = r.look(ctx, e, names, "/proc/self/root")
	}
	return said, err
}

// look has a helper look that has a directory of the host as the host's root.
func (r Engine) look(ctx context.Context, e *engine.Engine, names []string, root string) ([]byte, error) {
	config, host := r.helper(names, root)
	made, err := e.ContainerCreate(ctx, config, host, nil, nil, "")
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
func (r Engine) helper(names []string, root string) (*container.Config, *container.HostConfig) {
	pids := int64(64)
	config := &container.Config{
		Image: r.Image, User: "0:0", WorkingDir: "/", Entrypoint: append([]string{r.Program, Command}, names...), AttachStdout: true, AttachStderr: true,
		Labels: map[string]string{engine.LabelRole: engine.RoleProbe, engine.LabelNode: r.Node, engine.LabelScope: r.Scope, engine.LabelIncarnation: Command},
	}
	return config, &container.HostConfig{
		NetworkMode: "none", ReadonlyRootfs: true, CapDrop: []string{"ALL"}, CapAdd: []string{"DAC_READ_SEARCH"}, // the host's directories may be closed to others
		SecurityOpt: []string{"no-new-privileges", "label=disable"}, Resources: container.Resources{PidsLimit: &pids},
		Mounts: []mount.Mount{{Type: mount.TypeBind, Source: root, Target: hostDir, ReadOnly: true}},
	}
}

// sweep removes helpers that a killed SWOP left.
func (r Engine) sweep(ctx context.Context, e *engine.Engine) error {
	all, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", engine.LabelRole+"="+engine.RoleProbe), filters.Arg("label", engine.LabelScope+"="+r.Scope),
		filters.Arg("label", engine.LabelNode+"="+r.Node), filters.Arg("label", engine.LabelIncarnation+"="+Command),
	)})
	if err != nil {
		return engine.Explain(err)
	}
	for _, c := range all {
		if time.Since(time.Unix(c.Created, 0)) >= leftTime {
			if err := remove(ctx, e, c.ID); err != nil {
				return engine.Explain(err)
			}
		}
	}
	return nil
}

func remove(ctx context.Context, e *engine.Engine, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), helperTime)
	defer cancel()
	return e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
}
