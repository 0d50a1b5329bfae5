package runjob

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/framework"
	launcher "github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/jobnet"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// unknownCode is the exit code of a container that the engine says failed, and no more.
const unknownCode = -1

// Start implements work.Executor. Nothing is started that nobody would end with the lease, and nothing twice: a start that was cut off may have been
// one.
func (c *Containers) Start(ctx context.Context, j work.Job) (work.Status, error) {
	n, err := settle(ctx, c, j, network.Inspect{})
	if err == nil {
		err = c.start(ctx, j.Label)
	}
	if errors.Is(err, launcher.ErrNoInit) {
		c.made.noInit.Store(true)
		if err = again(ctx, c, j, n); err == nil {
			err = c.start(ctx, j.Label)
		}
	}
	if int(j.Member) < len(j.World) && j.World[j.Member].Own != "" {
		err = jobnet.Joining(err)
	}
	return work.Status{State: task.Started}, work.OfEngine(err)
}

func (c *Containers) start(ctx context.Context, l work.Label) error {
	return c.of(ctx, l, func(e *engine.Engine, x container.Summary) error {
		if err := c.Watch.begin(); err != nil {
			return err
		}
		if x.State != container.StateCreated {
			return nil
		}
		return launcher.Begin(ctx, e, x.ID)
	})
}

// of does something with a member's container.
func (c *Containers) of(ctx context.Context, l work.Label, do func(e *engine.Engine, x container.Summary) error) error {
	e, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	found, err := c.list(ctx, e)
	if err != nil {
		return err
	}
	x, is := found[l]
	if !is {
		return errGone
	}
	return do(e, x)
}

var errGone = fmt.Errorf("its container is gone: somebody else has removed it")

// Find implements work.Executor. Members that run are asked whether they are ready, all at a time.
func (c *Containers) Find(ctx context.Context) ([]work.Found, error) {
	e, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	found, err := c.list(ctx, e)
	if err != nil {
		return nil, err
	}
	c.rewatch(ctx, found)
	all, i := make([]work.Found, len(found)), 0
	var looks errgroup.Group
	for l, x := range found {
		f := &all[i]
		i++
		looks.Go(func() error {
			f.Label = l
			s, err := c.status(ctx, e, l, x)
			if err == nil {
				f.Status = c.Goods.Copies.Status(l, s)
			}
			return err
		})
	}
	if err := looks.Wait(); err != nil {
		return nil, err
	}
	left, err := c.bare(ctx, e, found)
	return append(all, left...), err
}

// rewatch has members watched whose watch was killed.
func (c *Containers) rewatch(ctx context.Context, found boxes) {
	for _, x := range found {
		if ended(x) {
			continue
		}
		if err := c.Watch.begin(); err != nil { // or it is tried again with the next look
			c.Log.WarnContext(ctx, "nobody would end members of jobs if this SWOP were killed", "err", err)
		}
		return
	}
}

// bare are members that have no more than the network of their epoch, as one whose host ended while it was prepared.
func (c *Containers) bare(ctx context.Context, e *engine.Engine, found boxes) (all []work.Found, err error) {
	networks, err := c.networks(ctx, e)
	for _, n := range networks {
		l, ok := volume.Member(n.Labels)
		used := false
		for other := range found {
			used = used || sameEpoch(l, other)
		}
		if ok && !used {
			all = append(all, work.Found{Label: l, Status: work.Status{State: task.Prepared}})
		}
	}
	return all, err
}

func sameEpoch(a, b work.Label) bool {
	a.Member = b.Member
	return a == b
}

func (c *Containers) status(ctx context.Context, e *engine.Engine, l work.Label, x container.Summary) (work.Status, error) {
	if x.State == container.StateCreated || holds(x) {
		return work.Status{State: task.Prepared}, nil
	}
	over := slices.Contains([]container.ContainerState{container.StateExited, container.StateDead, "stopped"}, x.State)
	var q question
	switch err := json.Unmarshal([]byte(x.Labels[engine.LabelReady]), &q); {
	case over:
		s, failed := exitOf(ctx, e, x)
		if q.Exits && failed == nil {
			s = c.prober.stops.Last(ctx, c.Log, l, runFolderIn(x), s)
		}
		return s, failed
	case err != nil:
		return work.Status{State: task.Exited, Code: unknownCode, Text: "its container's labels are not as this host has written them: run the job again"}, nil //nolint:nilerr // that is its end
	}
	s := work.Status{State: task.Started, Asks: c.prober.stops.Asks(ctx, c.Log, runFolderIn(x), q.Exits)}
	ready, why := c.prober.ready(ctx, l, q, func(ctx context.Context, command []string) error { return c.execs.run(ctx, e, x.ID, command) })
	if ready {
		s.State = task.Ready
	}
	if s.Text = why; why == "" {
		s.Text = isolation(c, l, x)
	}
	return s, nil
}

// isolation is what keeps a member in, for all who see its status.
func isolation(c *Containers, l work.Label, x container.Summary) string {
	if mode := x.HostConfig.NetworkMode; mode != c.networkName(l) {
		words := "container, open: network " + text.Printable(mode, '?')
		if x.Labels[engine.LabelLeadsOut] != "" {
			words += launcher.WayOut
		}
		return words
	}
	return "container, network of the job's members alone"
}

// exitOf is how a container ended.
func exitOf(ctx context.Context, e *engine.Engine, x container.Summary) (s work.Status, err error) {
	s.State = task.Exited
	info, err := e.ContainerInspect(ctx, x.ID)
	if err != nil || info.State == nil {
		return s, engine.Explain(fmt.Errorf("look at container %s: %w", engine.ShortID(x.ID), err))
	}
	s.Code = int32(info.State.ExitCode) //nolint:gosec // 0 to 255
	switch {
	case s.Code == 0 && info.State.Error == "":
		return s, nil
	case info.State.OOMKilled:
		s.Text = "it was killed for memory: raise memory under resources, or under limits in its host's policy"
	case info.State.Error != "":
		s.Text = work.LastLines([]string{info.State.Error})
	default:
		s.Text = signalWords(info.State.ExitCode)
	}
	if s.Code == 0 {
		s.Code = unknownCode
	}
	s.Said = withRemedy(work.LastLines(e.LastLines(ctx, x.ID)), "name an image that has it")
	return s, nil
}

// A member that is followed is looked at whether it has started, mostly soon: first after firstLook, then after twice as long, up to startLook.
const firstLook, startLook = 50 * time.Millisecond, time.Second

// Clean implements work.Executor: the engine asks the member's program to end, kills it after the job's grace, and removes all that it has.
func (c *Containers) Clean(ctx context.Context, l work.Label) error {
	if err := removed(ctx, c, l); err != nil {
		return err
	}
	return c.Goods.Copies.Over(l)
}

// removed ends and removes all that a member has, but for what is known of its copies.
func removed(ctx context.Context, c *Containers, l work.Label) error {
	e, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := c.stopped(ctx, e, l); err != nil {
		return err
	}
	// Both before its container goes, by which it is found again.
	if err := c.Goods.Copies.Finish(ctx, l); err != nil {
		return err
	}
	keepLeft(c.Goods.Left, l, c.Log)
	if err := c.remove(ctx, e, l, true); err != nil {
		return err
	}
	others, err := c.list(ctx, e) // now: they are cleaned at the same time as this one, and whoever is last sees none
	if err != nil {
		return err
	}
	if len(others) == 0 {
		if err := c.Watch.end(ctx); err != nil {
			return err
		}
	}
	for other := range others {
		if sameEpoch(other, l) {
			return nil // it has the network
		}
	}
	return c.removeNetwork(ctx, e, l)
}

// stopped ends what runs in a member's container, which stays.
func (c *Containers) stopped(ctx context.Context, e *engine.Engine, l work.Label) error {
	found, err := c.list(ctx, e)
	if x, is := found[l]; is && err == nil {
		err = stop(ctx, e, x)
	}
	return err
}

// remove ends and removes a member's container, and with all also what holds its address.
func (c *Containers) remove(ctx context.Context, e *engine.Engine, l work.Label, all bool) error {
	found, holders, err := both(ctx, c, e)
	if err != nil {
		return err
	}
	if x, is := found[l]; is {
		if err := stop(ctx, e, x); err != nil {
			return err
		}
		if err := removeBox(ctx, e, x); err != nil {
			return err
		}
		c.execs.forget(x.ID)
		c.made.forget(x.ID)
	}
	if x, is := holders[l]; is && all {
		if err := removeBox(ctx, e, x); err != nil {
			return err
		}
	}
	c.prober.forget(l)
	return nil
}

// removeBox removes a container with all that it has.
func removeBox(ctx context.Context, e *engine.Engine, x container.Summary) error {
	if err := e.ContainerRemove(ctx, x.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil && !errdefs.IsNotFound(err) {
		return engine.Explain(fmt.Errorf("remove container %s: %w", engine.ShortID(x.ID), err))
	}
	return nil
}

// stop ends what runs in a container, which has its grace.
func stop(ctx context.Context, e *engine.Engine, x container.Summary) error {
	if ended(x) {
		return nil
	}
	if x.State == container.StatePaused {
		_ = e.ContainerUnpause(ctx, x.ID) // else it is killed
	}
	if err := e.ContainerStop(ctx, x.ID, container.StopOptions{}); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsNotModified(err) {
		return engine.Explain(fmt.Errorf("stop container %s: %w", engine.ShortID(x.ID), err))
	}
	return nil
}

// namedBy is what a member is called among those of its job: as was noted when it was started, which knew its rank. Nothing was noted by a host of before.
func namedBy(l work.Label, noted string) string {
	return cmp.Or(noted, framework.NameOf(int(l.Member)))
}

// Print implements work.Printer, by the engine's logs. What is followed may not have started yet, as where groups start in order.
func (c *Containers) Print(ctx context.Context, l work.Label, tail int, follow bool, emit func(from, line string) error) error {
	err := c.of(ctx, l, func(e *engine.Engine, x container.Summary) error {
		for wait := firstLook; x.State == container.StateCreated || holds(x); wait = min(2*wait, startLook) {
			if !follow || pause.For(ctx, wait) != nil {
				return nil //nolint:nilerr // whoever follows has had enough
			}
			found, err := c.list(ctx, e)
			if x = found[l]; err != nil || x.ID == "" {
				return err
			}
		}
		from := namedBy(l, x.Labels[engine.LabelNamed])
		return e.Printed(ctx, x.ID, tail, follow, func(line string) error { return emit(from, line) })
	})
	if err == errGone { //nolint:errorlint // it is never wrapped
		return nil
	}
	return err
}

// nameOf is the name of a member's container.
func (c *Containers) nameOf(l work.Label) string {
	return fmt.Sprintf("%s-%d", c.networkName(l), l.Member)
}
