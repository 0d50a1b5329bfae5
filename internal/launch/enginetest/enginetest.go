// Package enginetest gives tests real container engines: the machine's own, a private one that may be restarted and killed,
// and Podman's. Whatever a test makes at them is gone when it ends.
package enginetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// TestImage is small and has python3, numpy, ps, ip and strace.
const TestImage = "swarm-test-ml:latest"

// Timeout bounds every wait: far more than any needs on a slow machine, so that a hang is an error and not a guess.
const Timeout = 60 * time.Second

// Engine connects to the machine's engine, the one that DOCKER_HOST names at the time of the call, which must have TestImage.
// The test is skipped where there is none. The connection closes with the test.
func Engine(t testing.TB) *engine.Engine {
	t.Helper()
	e := open(t)
	NeedImage(t, e, TestImage, "scripts/images test")
	return e
}

func open(t testing.TB) *engine.Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	e, err := engine.Open(ctx)
	if err != nil {
		t.Skipf("needs a container engine: run scripts/engine (%v)", err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// Dial connects to an engine by its address, a DOCKER_HOST. The connection closes with the test.
func Dial(t testing.TB, host string) *engine.Engine {
	t.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &engine.Engine{Client: c}
}

// NeedImage skips a test whose image is not at the engine. how is the command that makes it.
func NeedImage(t testing.TB, e *engine.Engine, image, how string) {
	t.Helper()
	if _, err := e.ImageInspect(t.Context(), image); errdefs.IsNotFound(err) {
		t.Skipf("needs image %s: run %s", image, how)
	} else if err != nil {
		t.Fatal(err)
	}
}

// Scope gives a test a scope of its own at the machine's engine and sets SWARM_SCOPE to it, for child processes too. When
// the test ends, every container, network and volume with that scope is removed. It can not be used in parallel tests.
func Scope(t testing.TB) string {
	t.Helper()
	e := open(t)
	scope := "test-" + random()
	t.Setenv("SWARM_SCOPE", scope)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		defer cancel()
		if err := sweep(ctx, e, scope); err != nil {
			t.Errorf("clean scope %s: %v", scope, err)
		}
	})
	return scope
}

// Clean demands that nothing of the scope is left when the test ends. Called right after Scope, it looks when all else that
// the test registered for its end is done.
func Clean(t testing.TB, scope string) {
	t.Helper()
	e := open(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		defer cancel()
		left, err := list(ctx, e, scope)
		if err != nil {
			t.Errorf("look at scope %s: %v", scope, err)
		}
		for _, thing := range left {
			t.Errorf("%s is left", thing)
		}
	})
}

// Left names what stands at an engine with a scope: "container sl-1 (running)", "network n", "volume v".
func Left(t testing.TB, e *engine.Engine, scope string) []string {
	t.Helper()
	things, err := list(t.Context(), e, scope)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, thing := range things {
		names = append(names, thing.String())
	}
	return names
}

// thing is something at an engine.
type thing struct{ kind, id, name, state string }

func (x thing) String() string {
	if x.state != "" {
		return fmt.Sprintf("%s %s (%s)", x.kind, x.name, x.state)
	}
	return x.kind + " " + x.name
}

// list is in the order in which things can be removed.
func list(ctx context.Context, e *engine.Engine, scope string) (things []thing, err error) {
	ours := filters.NewArgs(filters.Arg("label", engine.LabelScope+"="+scope))
	containers, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		name := c.ID
		if len(c.Names) > 0 {
			name = c.Names[0][1:]
		}
		things = append(things, thing{"container", c.ID, name, c.State})
	}
	networks, err := e.NetworkList(ctx, network.ListOptions{Filters: ours})
	if err != nil {
		return nil, err
	}
	for _, n := range networks {
		things = append(things, thing{"network", n.ID, n.Name, ""})
	}
	volumes, err := e.VolumeList(ctx, volume.ListOptions{Filters: ours})
	if err != nil {
		return nil, err
	}
	for _, v := range volumes.Volumes {
		things = append(things, thing{"volume", v.Name, v.Name, ""})
	}
	return things, nil
}

// sweep removes all of a scope. Who is still starting containers there is asked to stop by a second look.
func sweep(ctx context.Context, e *engine.Engine, scope string) error {
	for {
		things, err := list(ctx, e, scope)
		if err != nil || len(things) == 0 {
			return err
		}
		for _, x := range things {
			if err := remove(ctx, e, x); err != nil && !errdefs.IsNotFound(err) {
				return fmt.Errorf("remove %s: %w", x, err)
			}
		}
	}
}

func remove(ctx context.Context, e *engine.Engine, x thing) error {
	switch x.kind {
	case "container":
		if x.state == "running" { // Podman would ask it first, and wait
			_ = e.ContainerKill(ctx, x.id, "KILL")
		}
		err := e.ContainerRemove(ctx, x.id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if errdefs.IsConflict(err) { // somebody else is removing it: wait until it is gone
			return gone(ctx, e, x.id)
		}
		return err
	case "network":
		return e.NetworkRemove(ctx, x.id)
	default:
		return e.VolumeRemove(ctx, x.id, true)
	}
}

func gone(ctx context.Context, e *engine.Engine, id string) error {
	done, failed := e.ContainerWait(ctx, id, container.WaitConditionRemoved)
	select {
	case <-done:
		return nil
	case err := <-failed:
		return err
	}
}

// until polls what nothing announces, and returns the last error of try when ctx ends.
func until(ctx context.Context, try func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func random() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// options of a private engine or Podman.
type options struct {
	liveRestore bool
	path        []string
	without     []string
	images      []string
	namespace   string
	disk        int64
}

// Option bends a private engine.
type Option func(*options)

// LiveRestore leaves containers running while the engine is stopped or restarted.
func LiveRestore(o *options) { o.liveRestore = true }

// Path puts a directory before all others in which the engine looks for its programs, such as runtime hooks.
func Path(dir string) Option { return func(o *options) { o.path = append(o.path, dir) } }

// Without hides programs of the machine from the engine.
func Without(names ...string) Option {
	return func(o *options) { o.without = append(o.without, names...) }
}

// In puts a private engine into a network namespace, which a file of /run/netns stands for: that is the host network of its containers.
func In(namespace string) Option { return func(o *options) { o.namespace = namespace } }

// Disk gives a private engine a disk of its own for images, containers and volumes, of so many bytes.
func Disk(bytes int64) Option { return func(o *options) { o.disk = bytes } }

// Images are loaded from the machine's engine instead of TestImage; none makes a bare engine.
func Images(names ...string) Option { return func(o *options) { o.images = names } }

func gather(opts []Option) options {
	o := options{images: []string{TestImage}}
	for _, opt := range opts {
		opt(&o)
	}
	o.images = slices.Clone(o.images)
	return o
}
