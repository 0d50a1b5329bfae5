package containers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/component"
	programs "github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

const (
	askLimit   = 5 * time.Second
	unknownErr = -1 // exit code where there is none
)

// list returns the containers with SLs of this host's members.
func (r *Runner) list(ctx context.Context, e *engine.Engine) (map[work.Label][]container.Summary, error) {
	all, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", engine.LabelRole+"="+naming.RoleSL), filters.Arg("label", engine.LabelScope+"="+r.scope()), filters.Arg("label", engine.LabelHost+"="+r.Node),
	)})
	if err != nil {
		return nil, engine.Explain(fmt.Errorf("look for containers of tasks: %w", err))
	}
	found := map[work.Label][]container.Summary{}
	for _, c := range all {
		l, ok := volume.Member(c.Labels)
		if !ok || l.Node != r.Node || c.Labels[engine.LabelScope] != r.scope() {
			continue
		}
		if inherited, err := e.Inherited(ctx, c.Labels, c.ImageID); err != nil {
			return nil, err
		} else if !inherited {
			found[l] = append(found[l], c)
		}
	}
	return found, nil
}

// begun are the names of a member's containers that were started.
func (r *Runner) begun(ctx context.Context, e *engine.Engine, l work.Label) (map[string]bool, error) {
	found, err := r.list(ctx, e)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, c := range found[l] {
		for _, name := range c.Names {
			names[strings.TrimPrefix(name, "/")] = c.State != container.StateCreated
		}
	}
	return names, nil
}

// Find tells members by their containers. A host looks first when it starts, which is when the image of SLs is found, too.
func (r *Runner) Find(ctx context.Context) ([]work.Found, error) {
	e, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	r.Own.FindEarly(ctx, e)
	found, err := r.list(ctx, e)
	if err != nil {
		return nil, err
	}
	r.known.mu.Lock()
	maps.DeleteFunc(r.known.ready, func(id string, _ bool) bool { return !contains(found, id) })
	maps.DeleteFunc(r.known.kept, func(l work.Label, _ bool) bool { return found[l] == nil })
	r.known.mu.Unlock()
	var all []work.Found
	for l, cs := range found {
		if r.stays(l, cs) {
			continue
		}
		s, err := r.status(ctx, e, l, cs)
		if err != nil {
			return nil, err
		}
		all = append(all, work.Found{Label: l, Status: s})
	}
	return all, nil
}

func contains(found map[work.Label][]container.Summary, id string) bool {
	for _, cs := range found {
		if slices.ContainsFunc(cs, func(c container.Summary) bool { return c.ID == id }) {
			return true
		}
	}
	return false
}

// stays reports whether containers are there only because the owner wants to keep them.
func (r *Runner) stays(l work.Label, cs []container.Summary) bool {
	r.known.mu.Lock()
	defer r.known.mu.Unlock()
	return r.known.kept[l] && !slices.ContainsFunc(cs, func(c container.Summary) bool { return !ended(c) })
}

func ended(c container.Summary) bool {
	return c.State == container.StateExited || c.State == container.StateDead || c.State == container.StateCreated
}

// status is what has become of a member. It fails with the first of its SLs, and succeeds with the last.
func (r *Runner) status(ctx context.Context, e *engine.Engine, l work.Label, cs []container.Summary) (work.Status, error) {
	parts, _ := strconv.Atoi(cs[0].Labels[engine.LabelParts]) // one that is none counts as 0
	begun, runs, ready := 0, 0, true
	for _, c := range cs {
		switch {
		case c.State == container.StateCreated:
		case ended(c):
			begun++
			s, err := exitOf(ctx, e, c)
			if err != nil || s.Code != 0 {
				return s, err
			}
		default:
			begun, runs = begun+1, runs+1
			ready = ready && r.serves(ctx, e, c)
		}
	}
	r.known.mu.Lock()
	whole := r.known.whole[l]
	r.known.mu.Unlock()
	switch {
	case begun < parts && whole:
		return work.Status{State: task.Exited, Code: unknownErr, Text: "a container of it was removed by somebody else"}, nil
	case begun < parts:
		return work.Status{State: task.Prepared}, nil
	case runs == 0:
		return work.Status{State: task.Exited}, nil
	case ready:
		return work.Status{State: task.Ready}, nil
	}
	return work.Status{State: task.Started}, nil
}

// exitOf is how an SL ended, which is how its program did.
func exitOf(ctx context.Context, e *engine.Engine, c container.Summary) (work.Status, error) {
	s := work.Status{State: task.Exited}
	info, err := e.ContainerInspect(ctx, c.ID)
	if err != nil || info.State == nil {
		return s, engine.Explain(fmt.Errorf("look at container %s: %w", engine.ShortID(c.ID), err))
	}
	s.Code = int32(info.State.ExitCode) //nolint:gosec // 0 to 255
	if s.Code == 0 && info.State.Error == "" {
		return s, nil
	}
	if s.Code == 0 {
		s.Code = unknownErr
	}
	said := e.LastLines(ctx, c.ID)
	if stopped(said) {
		s.Text = stoppedText
		return s, nil
	}
	s.Text, s.Said = work.LastLines([]string{info.State.Error}), work.LastLines(said)
	return s, nil
}

// stoppedText is told of an SL that was stopped before it was done. Its SWOP did not do so: it removes what it ends. Its program's last lines say
// nothing of it.
const stoppedText = "its SL was stopped by somebody else, as by a container engine that is restarted without live-restore: assign the task again"

// stopped reports whether an SL says last that it was stopped.
func stopped(lines []string) bool {
	for _, l := range slices.Backward(lines) {
		if strings.TrimSpace(l) != "" {
			return strings.HasSuffix(strings.TrimSpace(l), task.PartStopped)
		}
	}
	return false
}

// serves reports whether the SL in a container is ready, by its own word.
func (r *Runner) serves(ctx context.Context, e *engine.Engine, c container.Summary) bool {
	r.known.mu.Lock()
	seen := r.known.ready[c.ID]
	r.known.mu.Unlock()
	if seen {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	dir := component.StateDir(naming.RoleSL, c.Labels[engine.LabelNode])
	raw, err := component.ExecIn(e)(ctx, c.ID, []string{"swarmd", "health", "--state-dir", dir, "--output", "json"})
	var health struct {
		Ready bool `json:"ready"`
	}
	if err != nil || json.Unmarshal(raw, &health) != nil || !health.Ready {
		return false
	}
	r.known.mu.Lock()
	defer r.known.mu.Unlock()
	if r.known.ready == nil {
		r.known.ready = map[string]bool{}
	}
	r.known.ready[c.ID] = true
	return true
}

// end ends an SL, which ends its program, and removes its container unless it is to stay.
func (r *Runner) end(ctx context.Context, e *engine.Engine, c container.Summary) error {
	what := fmt.Sprintf("SL %s (container %s)", c.Labels[engine.LabelNode], engine.ShortID(c.ID))
	if c.State == container.StatePaused {
		_ = e.ContainerUnpause(ctx, c.ID) // else it is killed
	}
	if !ended(c) {
		if err := e.ContainerStop(ctx, c.ID, container.StopOptions{}); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsNotModified(err) {
			return engine.Explain(fmt.Errorf("stop %s: %w", what, err))
		}
	}
	if r.Keep && c.State != container.StateCreated {
		return nil
	}
	if err := e.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil && !errdefs.IsNotFound(err) {
		return engine.Explain(fmt.Errorf("remove %s: %w", what, err)) // also one that is being removed: the next try sees
	}
	return nil
}

// sweep removes programs whose SL is gone, which could not end them, and the files that both shared: those of nodes of the profile and of the
// SLs that were removed, unless others, the members that stay, have them.
func (r *Runner) sweep(ctx context.Context, e *engine.Engine, removed []container.Summary, others map[work.Label][]container.Summary) error {
	busy, nodes := map[string]bool{}, map[string]bool{}
	for _, c := range removed {
		nodes[c.Labels[engine.LabelNode]] = true
	}
	for _, cs := range others {
		for _, c := range cs {
			busy[c.Labels[engine.LabelNode]] = busy[c.Labels[engine.LabelNode]] || !ended(c)
		}
	}
	launcher := programs.New(e, r.Log)
	for i := range r.Profile.Nodes {
		nodes[r.nodeName(&r.Profile.Nodes[i])] = true
	}
	for node := range nodes {
		if busy[node] {
			continue
		}
		left, err := launcher.Find(ctx, node, r.scope())
		if err != nil {
			return err
		}
		for _, f := range left {
			if r.Keep && f.State == container.StateExited {
				continue
			}
			if err := launcher.Remove(ctx, f); err != nil {
				return err
			}
		}
		if r.Keep {
			continue
		}
		spill := component.SpillVolume(r.scope(), node)
		if err := e.VolumeRemove(ctx, spill, false); err != nil && !errdefs.IsNotFound(err) {
			return engine.Explain(fmt.Errorf("remove volume %s: %w", spill, err))
		}
	}
	return nil
}
