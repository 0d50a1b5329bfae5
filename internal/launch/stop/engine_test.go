package stop_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/launch/stop"
)

// Programs of containers: one that ends when it is asked to, and one that does not listen.
const (
	polite = `trap "exit 0" TERM; sleep 1000 & wait`
	deaf   = `trap "" TERM; while :; do sleep 1; done`
	// strict is an SL that ends in time, with the exit code of its program, which it had to kill.
	strict = `trap "exit 137" TERM; sleep 1000 & wait`
)

// box is a container to be made.
type box struct {
	role, node, platform string
	scope                string // "-": no labels at all
	command              string
	state                string // "", "created", "exited", "paused"
	host                 container.HostConfig
}

func (b box) labels() map[string]string {
	if b.scope == "-" {
		return nil
	}
	l := map[string]string{engine.LabelScope: b.scope, engine.LabelNode: b.node, engine.LabelPlatform: b.platform}
	if b.role != "" {
		l[engine.LabelRole] = b.role
	}
	return l
}

// make creates the container, starts it and brings it into its state. It is gone when the test ends.
func (b box) make(t *testing.T, e *engine.Engine) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if b.command == "" {
		b.command = polite
	}
	b.host.NetworkMode = "none"
	c, err := e.ContainerCreate(t.Context(), &container.Config{
		Image: enginetest.TestImage, Cmd: []string{"sh", "-c", b.command}, Labels: b.labels(),
	}, &b.host, nil, nil, "")
	must(err)
	t.Cleanup(func() { remove(t, e, c.ID) })
	if b.state == "created" {
		return c.ID
	}
	must(e.ContainerStart(t.Context(), c.ID, container.StartOptions{}))
	switch b.state {
	case "exited":
		must(e.ContainerKill(t.Context(), c.ID, "KILL"))
		done, failed := e.ContainerWait(t.Context(), c.ID, container.WaitConditionNotRunning)
		select {
		case <-done:
		case err := <-failed:
			t.Fatal(err)
		}
	case "paused":
		must(e.ContainerPause(t.Context(), c.ID))
	}
	return c.ID
}

func remove(t *testing.T, e *engine.Engine, id string) {
	t.Helper()
	ctx, cancel := t.Context(), func() {}
	if ctx.Err() != nil { // in a clean-up
		ctx, cancel = cleaning()
	}
	defer cancel()
	if err := e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		t.Errorf("remove container %s: %v", id, err)
	}
}

// state is a container's, "gone" when it is not there.
func state(t *testing.T, e *engine.Engine, id string) string {
	t.Helper()
	c, err := e.ContainerInspect(t.Context(), id)
	if errdefs.IsNotFound(err) {
		return "gone"
	}
	if err != nil {
		t.Fatal(err)
	}
	return c.State.Status
}

// words are the lines of an output, with names in place of containers' IDs.
func words(out string, ids map[string]string) []string {
	for name, id := range ids {
		out = strings.ReplaceAll(out, id[:12], name)
	}
	return strings.Split(strings.TrimSpace(out), "\n")
}

func TestContainersAreStoppedAndRemoved(t *testing.T) {
	e, scope := enginetest.Engine(t), enginetest.Scope(t)
	runDir(t)
	process(t, "polite", "sl", "host-sl", "PYT")
	ids := map[string]string{}
	for name, b := range map[string]box{
		"swci":   {role: naming.RoleSWCI, scope: scope, host: container.HostConfig{AutoRemove: true}},
		"pyt":    {role: naming.RoleSL, node: "a", platform: "PYT", scope: scope, command: strict, host: container.HostConfig{RestartPolicy: container.RestartPolicy{Name: "always"}}},
		"tf":     {role: naming.RoleSL, node: "b", platform: "TF", scope: scope, state: "exited"},
		"ml":     {role: engine.RoleML, node: "a", platform: "PYT", scope: scope, command: deaf},
		"probe":  {role: engine.RoleProbe, node: "a", platform: "PYT", scope: scope, state: "created"},
		"sn":     {role: naming.RoleSN, node: "sn-0", scope: scope, state: "paused"},
		"spire":  {role: engine.RoleSpireServer, scope: scope},
		"newer":  {role: "newer", node: "x", scope: scope},
		"theirs": {role: naming.RoleSL, node: "a", platform: "PYT", scope: scope + "-other"},
		"plain":  {scope: "-"},
		"norole": {scope: scope},
	} {
		ids[name] = b.make(t, e)
	}
	makeVolume(t, e, "vol-"+scope, map[string]string{engine.LabelScope: scope, engine.LabelRole: naming.RoleSL, engine.LabelNode: "a", engine.LabelPlatform: "PYT"})
	makeVolume(t, e, "vol-"+scope+"-spill", map[string]string{engine.LabelScope: scope, engine.LabelRole: naming.RoleSL, engine.LabelNode: "b", engine.LabelPlatform: "TF"})
	makeVolume(t, e, "theirs-"+scope, map[string]string{engine.LabelScope: scope})
	n, err := e.NetworkCreate(t.Context(), "net-"+scope, network.CreateOptions{Labels: map[string]string{engine.LabelScope: scope, engine.LabelRole: naming.RoleSN}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleaning()
		defer cancel()
		if err := e.NetworkRemove(ctx, n.ID); err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
	})

	// SLs of one platform only, and nothing is removed.
	out, err := call(t, e, scope, 4*time.Second, "--sl-pyt", "--keep")
	if err != nil {
		t.Fatal(err)
	}
	got := words(out, ids)
	want := []string{"Stopping SL a (container pyt) … stopped", "Stopping SL host-sl (process N) … stopped", "Stopping ML program a (container ml) … killed (it did not stop in time)"}
	slices.Sort(got[:2])
	if d := cmp.Diff(want, masked(got)); d != "" {
		t.Errorf("--sl-pyt --keep said\n%s", d)
	}
	states := map[string]string{
		"swci": "running", "pyt": "exited", "tf": "exited", "ml": "exited", "probe": "created", "sn": "paused", "spire": "running", "newer": "running",
		"theirs": "running", "plain": "running", "norole": "running",
	}
	compare(t, e, ids, states)

	// Everything of one kind.
	if out, err = call(t, e, scope, 4*time.Second, "--sl", "--spire-server"); err != nil {
		t.Fatal(err)
	}
	got = masked(words(out, ids))
	want = []string{
		"Removing SL a (container pyt) … removed", "Removing SL b (container tf) … removed",
		"Removing ML program a (container ml) … removed", "Removing probe a (container probe) … removed",
		"Stopping SPIRE server (container spire) … stopped and removed",
		"Removing volume vol-" + scope + " (state of SL a) … removed", "Removing volume vol-" + scope + "-spill (weight files of SL b) … removed",
	}
	for _, pair := range [][2]int{{0, 2}, {2, 4}, {5, 7}} { // in parallel, hence in any order
		if len(got) >= pair[1] {
			slices.Sort(got[pair[0]:pair[1]])
		}
	}
	slices.Sort(want[2:4])
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("--sl --spire-server said\n%s", d)
	}
	for _, name := range []string{"pyt", "tf", "ml", "probe", "spire"} {
		states[name] = "gone"
	}
	compare(t, e, ids, states)

	// The rest, and then nothing.
	if out, err = call(t, e, scope, time.Second); err != nil {
		t.Fatal(err)
	}
	got = masked(words(out, ids))
	want = []string{
		"Stopping SWCI (container swci) … stopped and removed", "Stopping SN sn-0 (container sn) … stopped and removed",
		"Stopping newer x (container newer) … stopped and removed", "Removing network net-" + scope + " … removed",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("everything said\n%s", d)
	}
	for _, name := range []string{"swci", "sn", "newer"} {
		states[name] = "gone"
	}
	compare(t, e, ids, states)
	if out, err = call(t, e, scope, time.Second); err != nil || out != "No running components found\n" {
		t.Errorf("again: %q, %v", out, err)
	}
	if left := enginetest.Left(t, e, scope); len(left) != 2 {
		t.Errorf("left: %v, want what has no role label", left)
	}
}

// masked replaces process IDs.
func masked(lines []string) []string {
	out := slices.Clone(lines)
	for i, line := range out {
		if head, rest, ok := strings.Cut(line, "(process "); ok {
			out[i] = head + "(process N" + rest[strings.Index(rest, ")"):]
		}
	}
	return out
}

func compare(t *testing.T, e *engine.Engine, ids, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name, id := range ids {
		got[name] = state(t, e, id)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("states:\n%s", d)
	}
}

func makeVolume(t *testing.T, e *engine.Engine, name string, labels map[string]string) {
	t.Helper()
	if _, err := e.VolumeCreate(t.Context(), volume.CreateOptions{Name: name, Labels: labels}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleaning()
		defer cancel()
		if err := e.VolumeRemove(ctx, name, true); err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// What can't be removed is named, the rest goes on.
func TestVolumeInUseByAStrangerIsNamed(t *testing.T) {
	e, scope := enginetest.Engine(t), enginetest.Scope(t)
	runDir(t)
	labels := map[string]string{engine.LabelScope: scope, engine.LabelRole: naming.RoleSN, engine.LabelNode: "sn-0"}
	makeVolume(t, e, "used-"+scope, labels)
	makeVolume(t, e, "free-"+scope, labels)
	stranger := box{scope: "-", state: "created", host: container.HostConfig{
		Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: "used-" + scope, Target: "/x"}},
	}}.make(t, e)
	out, err := call(t, e, scope, time.Second)
	var failed *stop.Error
	if !errors.As(err, &failed) || !slices.Equal(failed.What, []string{"volume used-" + scope + " (state of SN sn-0)"}) {
		t.Errorf("%q, %v", out, err)
	}
	if !strings.Contains(out, "Removing volume free-"+scope+" (state of SN sn-0) … removed\n") || state(t, e, stranger) != "created" {
		t.Errorf("%q", out)
	}
}

func TestStopOnPodman(t *testing.T) {
	host := enginetest.Podman(t)
	e := enginetest.Dial(t, host)
	runDir(t)
	const scope = "podman"
	ids := map[string]string{
		"sl":     box{role: naming.RoleSL, node: "a", platform: "PYT", scope: scope}.make(t, e),
		"theirs": box{role: naming.RoleSL, node: "a", platform: "PYT", scope: "other", state: "created"}.make(t, e),
		"plain":  box{scope: "-", state: "created"}.make(t, e),
	}
	makeVolume(t, e, "podman-vol", map[string]string{engine.LabelScope: scope, engine.LabelRole: naming.RoleSL, engine.LabelNode: "a"})
	out, err := call(t, e, scope, 10*time.Second)
	if err != nil {
		t.Fatalf("%q, %v", out, err)
	}
	want := []string{"Stopping SL a (container sl) … stopped and removed", "Removing volume podman-vol (state of SL a) … removed"}
	if d := cmp.Diff(want, words(out, ids)); d != "" {
		t.Error(d)
	}
	compare(t, e, ids, map[string]string{"sl": "gone", "theirs": "created", "plain": "created"})
	if out, err := call(t, e, scope, time.Second); err != nil || out != "No running components found\n" {
		t.Errorf("again: %q, %v", out, err)
	}
}
