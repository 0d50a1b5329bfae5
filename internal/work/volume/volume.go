package volume

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
)

const (
	target     = "/volume"
	openLimit  = 30 * time.Second
	closeLimit = 30 * time.Second
)

// Labels are those of what is made for a member of an assignment.
func Labels(l work.Label, role, scope string) map[string]string {
	return map[string]string{
		engine.LabelRole: role, engine.LabelScope: scope, engine.LabelSwarm: l.Swarm, engine.LabelHost: l.Node, engine.LabelAssignment: l.Assignment,
		engine.LabelEpoch: strconv.FormatUint(uint64(l.Epoch), 10), engine.LabelMember: strconv.FormatUint(uint64(l.Member), 10),
	}
}

// Member reads those labels, also those of a member's other parts.
func Member(labels map[string]string) (l work.Label, ok bool) {
	epoch, err := strconv.ParseUint(labels[engine.LabelEpoch], 10, 32)
	index, err2 := strconv.ParseUint(labels[engine.LabelMember], 10, 32)
	l = work.Label{
		Swarm: labels[engine.LabelSwarm], Node: labels[engine.LabelHost], Assignment: labels[engine.LabelAssignment], Epoch: uint32(epoch), Member: uint32(index),
	}
	return l, err == nil && err2 == nil && l.Assignment != ""
}

// Volume is one that is open.
type Volume struct {
	engine    *engine.Engine
	name      string
	container string
	image     string
}

// Open opens a volume, which is made if it is not there. Everything that it makes bears the labels. The caller closes it; what a process leaves that ends before is found by
// the labels. It ends when the engine has answered, not when ctx does: an engine goes on with what it was asked to make when who asked goes away,
// and nobody would find that in time to remove it. What is written to is marked as filled in part until it is closed, also if it can't be opened.
func Open(ctx context.Context, e *engine.Engine, name string, readOnly bool, labels map[string]string) (*Volume, error) {
	own := maps.Clone(labels)
	delete(own, engine.LabelRole) // a volume that stays is nobody's part
	v := &Volume{engine: e, name: name}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openLimit)
	defer cancel()
	var err error
	marked := maps.Clone(own)
	if !readOnly {
		marked[engine.LabelFills] = name
	}
	if v.image, err = emptyImage(ctx, e, marked); err != nil {
		return nil, err
	}
	made, err := e.ContainerCreate(ctx, &container.Config{Image: v.image, Cmd: []string{"/none"}, Labels: labels}, &container.HostConfig{
		NetworkMode: "none", Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: target, ReadOnly: readOnly, VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: own}}},
	}, nil, nil, "")
	if err != nil {
		if readOnly {
			_ = v.Close(ctx) // why it can't be opened is said
		}
		return nil, engine.Explain(fmt.Errorf("open volume %.200s: %w", name, err))
	}
	v.container = made.ID
	return v, nil
}

// emptyImage makes an image that has nothing in it. A role is not among its labels: a container's would not be its own, see engine.Inherited.
func emptyImage(ctx context.Context, e *engine.Engine, labels map[string]string) (string, error) {
	const nothing = 1024 // bytes of an archive without entries
	var changes []string
	for k, v := range labels {
		changes = append(changes, "LABEL "+k+"="+strconv.Quote(v))
	}
	said, err := e.ImageImport(ctx, image.ImportSource{Source: strings.NewReader(strings.Repeat("\x00", nothing)), SourceName: "-"}, "", image.ImportOptions{Changes: changes})
	if err != nil {
		return "", engine.Explain(fmt.Errorf("make an empty image: %w", err))
	}
	defer said.Close()
	raw, err := io.ReadAll(io.LimitReader(said, 1<<16))
	if err != nil {
		return "", engine.Explain(fmt.Errorf("make an empty image: %w", err))
	}
	const mark = "sha256:"
	at := strings.Index(string(raw), mark)
	if at < 0 || len(raw) < at+len(mark)+64 {
		return "", fmt.Errorf("make an empty image: the engine answered %.200q: see its log", raw)
	}
	return string(raw[at : at+len(mark)+64]), nil
}

// Files returns what is in the volume, as an archive. Inside makes names in the volume of those in it.
func (v *Volume) Files(ctx context.Context) (io.ReadCloser, error) {
	files, _, err := v.engine.CopyFromContainer(ctx, v.container, target)
	if err != nil {
		return nil, engine.Explain(fmt.Errorf("read volume %.200s: %w", v.name, err))
	}
	return files, nil
}

// Inside is the name that an entry of Files has in the volume, which is clean; "." is the volume itself.
func Inside(name string) (string, bool) {
	rel, ok := strings.CutPrefix(path.Clean("/"+name), target)
	if !ok || rel != "" && rel[0] != '/' {
		return "", false
	}
	return path.Clean("./" + rel), true
}

// Put unpacks an archive into the volume. The engine keeps its names within the volume.
func (v *Volume) Put(ctx context.Context, archive io.Reader) error {
	if err := v.engine.CopyToContainer(ctx, v.container, target, archive, container.CopyToContainerOptions{}); err != nil {
		return engine.Explain(fmt.Errorf("write to volume %.200s: %w", v.name, err))
	}
	return nil
}

// Close removes what was made to open the volume, also when ctx has ended.
func (v *Volume) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	if v.container != "" {
		if err := v.engine.ContainerRemove(ctx, v.container, container.RemoveOptions{Force: true}); err != nil && !errdefs.IsNotFound(err) {
			return engine.Explain(fmt.Errorf("close volume %.200s: %w", v.name, err))
		}
	}
	if v.image != "" {
		if _, err := v.engine.ImageRemove(ctx, v.image, image.RemoveOptions{}); err != nil && !errdefs.IsNotFound(err) {
			return engine.Explain(fmt.Errorf("close volume %.200s: %w", v.name, err))
		}
	}
	return nil
}

// Opened returns the members of a node for which containers of a role are there.
func Opened(ctx context.Context, e *engine.Engine, role, scope, node string) ([]work.Label, error) {
	all, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: ours(role, scope, node)})
	if err != nil {
		return nil, engine.Explain(fmt.Errorf("look for containers of tasks: %w", err))
	}
	var found []work.Label
	for _, c := range all {
		if l, ok := Member(c.Labels); ok && c.Labels[engine.LabelRole] == role {
			found = append(found, l)
		}
	}
	return found, nil
}

func ours(role, scope, node string) filters.Args {
	return filters.NewArgs(filters.Arg("label", engine.LabelRole+"="+role), filters.Arg("label", engine.LabelScope+"="+scope), filters.Arg("label", engine.LabelHost+"="+node))
}

// Filtered are the filters for what has all labels.
func Filtered(labels map[string]string) filters.Args {
	args := filters.NewArgs()
	for k, v := range labels {
		args.Add("label", k+"="+v)
	}
	return args
}
