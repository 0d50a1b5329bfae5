package build_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	dockervolume "github.com/docker/docker/api/types/volume"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/space"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/build"
	images "github.com/swarmd/swarmd/internal/work/image"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// made is a task that builds an image.
func made(outcome, from string, steps ...string) *task.Task {
	raw, err := json.Marshal(steps)
	if err != nil {
		panic(err)
	}
	if from == "" {
		from = "null"
	}
	t := &task.Task{
		Name: "make", Type: task.MakeUserContainer, Prereq: task.Root, Outcome: outcome,
		Definition: fmt.Appendf(nil, "BuildContext : %s\nBuildType : INLINE\nBuildSteps : %s\n", from, raw),
	}
	t.Digest = t.Sum()
	return t
}

type lab struct {
	t       *testing.T
	engine  *engine.Engine
	scope   string
	outcome string
	cfg     build.Config
}

// newLab has an engine with a scope of its own, in which nothing but the outcome is left.
func newLab(t *testing.T) *lab {
	e, scope := enginetest.Engine(t), enginetest.Scope(t)
	enginetest.Clean(t, scope)
	l := &lab{t: t, engine: e, scope: scope, outcome: "outcome-" + scope + ":1"}
	l.cfg = config(scope)
	t.Cleanup(func() {
		ctx := context.Background()
		_, _ = e.ImageRemove(ctx, l.outcome, image.RemoveOptions{PruneChildren: true}) // it may not be there
		left, err := e.ImageList(ctx, image.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", engine.LabelBuild+"="+mark(scope)))})
		if err != nil || len(left) > 0 {
			t.Errorf("%d images of steps are left: %v", len(left), err)
		}
	})
	return l
}

func config(scope string) build.Config {
	log := slog.New(slog.DiscardHandler)
	return build.Config{
		Open: engine.Open, Node: "swop", Scope: scope, Terms: policy.Terms{Network: true}, Fetches: func(work.Job, string) bool { return false },
		Images: &images.Puller{Open: engine.Open, Log: log}, Log: log, Proxies: []taskfile.Var{{Name: "http_proxy", Value: "http://proxy.example:3128"}},
	}
}

// mark is what steps of the scope's builds bear.
func mark(scope string) string { return build.Mark(scope, "swop") }

func job(t *task.Task) work.Job {
	return work.Job{Label: work.Label{Swarm: "s", Node: "swop", Assignment: "7", Epoch: 1, Member: 2}, Task: t, Assignment: task.Request{ID: "7"}}
}

func (l *lab) run(b *build.Builder, t *task.Task) (work.Status, error) {
	if err := b.Prepare(l.t.Context(), job(t)); err != nil {
		return work.Status{}, err
	}
	return b.Start(l.t.Context(), job(t))
}

// volume makes one with files.
func (l *lab) volume(files map[string]string) string {
	l.t.Helper()
	name := "context-" + l.scope
	if _, err := l.engine.VolumeCreate(l.t.Context(), dockervolume.CreateOptions{Name: name, Labels: map[string]string{engine.LabelScope: l.scope}}); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := l.engine.VolumeRemove(context.Background(), name, true); err != nil {
			l.t.Error(err)
		}
	})
	l.fill(name, files)
	return name
}

func (l *lab) fill(name string, files map[string]string) {
	l.t.Helper()
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			l.t.Fatal(err)
		}
		_, _ = w.Write([]byte(text)) // into memory
	}
	_ = w.Close() // likewise
	v, err := volume.Open(l.t.Context(), l.engine, name, false, volume.Labels(job(nil).Label, engine.RoleBuild, l.scope))
	if err != nil {
		l.t.Fatal(err)
	}
	if err := v.Put(l.t.Context(), &packed); err != nil {
		l.t.Error(err)
	}
	if err := v.Close(l.t.Context()); err != nil {
		l.t.Error(err)
	}
}

func (l *lab) there() (image.InspectResponse, bool) {
	found, err := l.engine.ImageInspect(l.t.Context(), l.outcome)
	return found, err == nil
}

// TestAnImageIsBuilt: of a volume's files, with the proxies, and no second time for the same assignment.
func TestAnImageIsBuilt(t *testing.T) {
	l := newLab(t)
	of := l.volume(map[string]string{"dir/said.txt": "hello", ".dockerignore": "dir"})
	b := build.New(l.cfg)
	tt := made(l.outcome, of, "FROM "+enginetest.TestImage+" AS one", "COPY . /c", "RUN find /c -type f | sort > /found && echo $http_proxy \\", " >> /found",
		"FROM "+enginetest.TestImage, "COPY --from=one /found /found", "RUN cat /found && grep -q '^/c/dir/said.txt$' /found && test $(grep -c . /found) = 2 && grep -q proxy.example /found", "CMD [\"/x\"]")
	s, err := l.run(b, tt)
	if err != nil || s.State != task.Exited || s.Code != 0 || !strings.Contains(s.Text, l.outcome+" is built: sha256:") {
		t.Fatalf("%+v, %v", s, err)
	}
	first, ok := l.there()
	if !ok || first.Config.Labels[engine.LabelTask] != tt.Digest || first.Config.Labels[engine.LabelAssignment] != "7" || first.Config.Labels[engine.LabelMember] != "2" ||
		first.Config.Labels[engine.LabelBuild] != "" || first.Config.Labels[engine.LabelRole] != "" || !slices.Equal(first.Config.Cmd, []string{"/x"}) {
		t.Errorf("%+v", first.Config)
	}
	for _, e := range first.Config.Env {
		if strings.Contains(e, "proxy") {
			t.Errorf("the image keeps %s", e)
		}
	}
	s, err = l.run(build.New(l.cfg), tt)
	if again, _ := l.there(); err != nil || s.Code != 0 || again.ID != first.ID {
		t.Errorf("again: %+v, %v, %s and %s", s, err, first.ID, again.ID)
	}
	left, err := l.engine.ContainerCreate(t.Context(), &container.Config{Image: enginetest.TestImage, Cmd: []string{"sleep", "1"}, Labels: map[string]string{engine.LabelBuild: mark(l.scope)}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	found, err := b.Find(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if _, err := l.engine.ContainerInspect(t.Context(), left.ID); !errdefs.IsNotFound(err) {
		t.Errorf("a step that nobody waits for: %v", err)
	}
	if err := b.Clean(t.Context(), job(tt).Label); err != nil {
		t.Error(err)
	}
	if _, ok := l.there(); !ok {
		t.Error("the outcome is gone")
	}
}

// TestAContextIsLookedAtAsItIsBuilt: a volume that was exchanged since it was looked at, or is gone, is not read, nor made.
func TestAContextIsLookedAtAsItIsBuilt(t *testing.T) {
	l := newLab(t)
	of := l.volume(nil)
	tt, b := made(l.outcome, of, "FROM "+enginetest.TestImage, "COPY . /c"), build.New(l.cfg)
	if err := b.Prepare(t.Context(), job(tt)); err != nil {
		t.Fatal(err)
	}
	if err := l.engine.VolumeRemove(t.Context(), of, false); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Start(t.Context(), job(tt)); err == nil || !strings.Contains(err.Error(), "BuildContext: there is no volume") {
		t.Errorf("gone: %v", err)
	}
	if _, err := l.engine.VolumeInspect(t.Context(), of); !errdefs.IsNotFound(err) {
		t.Errorf("it was made: %v", err)
	}
	if _, err := l.engine.VolumeCreate(t.Context(), dockervolume.CreateOptions{
		Name: of, Labels: map[string]string{engine.LabelScope: l.scope}, DriverOpts: map[string]string{"type": "none", "o": "bind", "device": t.TempDir()},
	}); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{"prepare": func() error { return b.Prepare(t.Context(), job(tt)) }, "start": func() error { _, err := b.Start(t.Context(), job(tt)); return err }} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "leads out of the engine's own storage") {
			t.Errorf("exchanged: %s: %v", name, err)
		}
	}
	j := job(tt)
	j.Grant.Volumes = []string{of}
	if s, err := b.Start(t.Context(), j); err != nil || s.Code != 0 {
		t.Errorf("named by the owner: %+v, %v", s, err)
	}
}

// TestABuildFails: its member ends with the code and the last lines, and nothing is left.
func TestABuildFails(t *testing.T) {
	l := newLab(t)
	s, err := l.run(build.New(l.cfg), made(l.outcome, "", "FROM "+enginetest.TestImage, "RUN echo first > /f", "RUN printf 'the reason\\033[31m\\n'; exit 3"))
	if err != nil || s.State != task.Exited || s.Code != 3 || !strings.Contains(s.Said, "the reason") || !strings.Contains(s.Text, "returned a non-zero code: 3") || strings.ContainsAny(s.Text+s.Said, "\x1b\n") {
		t.Errorf("%+v, %v", s, err)
	}
	if _, ok := l.there(); ok {
		t.Error("the image is there")
	}
}

// TestABuildIsHeldToTheOwnersTerms: no network, no more memory, no more processor than that, and none of the host.
func TestABuildIsHeldToTheOwnersTerms(t *testing.T) {
	l := newLab(t)
	l.cfg.Terms = policy.Terms{Limits: policy.Limits{CPUs: 0.5, Memory: 96 << 20}}
	s, err := l.run(build.New(l.cfg), made(l.outcome, "", "FROM "+enginetest.TestImage,
		"RUN test \"$(ip -o link | grep -v -e ' lo:' -e NOARP | wc -l)\" = 0",
		"RUN grep -qx 100663296 /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null",
		"RUN grep -qx -e 50000 -e '50000 100000' /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max 2>/dev/null",
		"RUN test ! -e /var/run/docker.sock && ! mount -t tmpfs none /mnt 2>/dev/null"))
	if err != nil || s.Code != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = l.run(build.New(l.cfg), made(l.outcome, "", "FROM "+enginetest.TestImage, "RUN false"))
	if err != nil || s.Code != 1 || !strings.Contains(s.Text, "the build had no network, which the host's policy gives by networks: [bridge] under limits") {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestABuildHasNoGPUs where the owner limits them: an image that asks for all, and steps that do, get none. Without the limit they stay as they are.
func TestABuildHasNoGPUs(t *testing.T) {
	l := newLab(t)
	const asks = "RUN test \"$NVIDIA_VISIBLE_DEVICES\" = "
	if s, err := l.run(build.New(l.cfg), made(l.outcome, "", "FROM "+enginetest.TestImage, "ENV NVIDIA_VISIBLE_DEVICES=all", asks+"all", "ONBUILD RUN true")); err != nil || s.Code != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	base := "base-" + l.outcome
	t.Cleanup(func() {
		_, _ = l.engine.ImageRemove(context.Background(), base, image.RemoveOptions{PruneChildren: true})
	})
	if err := l.engine.ImageTag(t.Context(), l.outcome, base); err != nil {
		t.Fatal(err)
	}
	l.cfg.Terms.NoGPUs = true
	for _, steps := range [][]string{{"FROM " + base}, {"FROM " + enginetest.TestImage + " AS x", "ONBUILD RUN nvidia-smi", "FROM x"}} {
		if _, err := l.run(build.New(l.cfg), made(l.outcome, "", steps...)); err == nil || !strings.Contains(err.Error(), "ONBUILD RUN can't be held to no GPUs") {
			t.Errorf("%q: %v", steps, err)
		}
	}
	l.cfg.Terms.NoGPUs = false
	if s, err := l.run(build.New(l.cfg), made(l.outcome, "", "FROM "+base, asks+"all")); err != nil || s.Code != 0 { // triggers are gone now
		t.Fatalf("%+v, %v", s, err)
	}
	if err := l.engine.ImageTag(t.Context(), l.outcome, base); err != nil {
		t.Fatal(err)
	}
	l.cfg.Terms.NoGPUs = true
	s, err := build.New(l.cfg).Start(t.Context(), work.Job{
		Label: work.Label{Swarm: "s", Node: "swop", Assignment: "8", Epoch: 1}, Task: made(l.outcome, "", "FROM "+base, asks+"void", "ENV NVIDIA_VISIBLE_DEVICES all", asks+"void"), Assignment: task.Request{ID: "8"},
	})
	if err != nil || s.Code != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestWhatABuildStartsFrom: what is not there is fetched only if the owner lets it be.
func TestWhatABuildStartsFrom(t *testing.T) {
	l, r := newLab(t), enginetest.NewRegistry(t)
	base := r.Address + "/org/base:1.0"
	t.Cleanup(func() { _, _ = l.engine.ImageRemove(context.Background(), base, image.RemoveOptions{}) })
	steps := made(l.outcome, "", "FROM "+base, "ENV A=b")
	_, err := l.run(build.New(l.cfg), steps)
	if err == nil || !strings.Contains(fmt.Sprint(err), "which is not on this host, whose owner lets no build fetch it") {
		t.Errorf("got %v", err)
	}
	if _, err := build.New(l.cfg).Start(t.Context(), job(steps)); err == nil {
		t.Error("it starts all the same")
	}
	l.cfg.Fetches = func(j work.Job, name string) bool { return name == base && j.Task == steps }
	s, err := l.run(build.New(l.cfg), steps)
	if got, ok := l.there(); err != nil || s.Code != 0 || !ok || !slices.Contains(got.Config.Env, "A=b") {
		t.Errorf("%+v, %v", s, err)
	}
}

// running waits until a step of a build runs.
func (l *lab) steps(want int) {
	l.t.Helper()
	ticks, ends := time.NewTicker(20*time.Millisecond), time.After(enginetest.Timeout)
	defer ticks.Stop()
	for {
		all, err := l.engine.ContainerList(l.t.Context(), container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", engine.LabelBuild+"="+mark(l.scope)))})
		if err != nil {
			l.t.Fatal(err)
		}
		if len(all) == want {
			return
		}
		select {
		case <-ticks.C:
		case <-ends:
			l.t.Fatalf("%d steps run, want %d", len(all), want)
		}
	}
}

// waits is a task that waits for a file in its context.
func (l *lab) waits(of string) *task.Task {
	return made(l.outcome, of, "FROM "+enginetest.TestImage, "COPY . /c", "RUN test -e /c/go || sleep 1000")
}

func TestABuildIsEnded(t *testing.T) {
	for name, tt := range map[string]struct {
		hours float64
		full  bool
		want  string
	}{
		"by its host": {want: "context canceled"},
		"in time":     {hours: 1e-12, want: "was not done after 3ns, and was ended: make it smaller, or raise hours"},
		"by the disk": {full: true, want: "the disk is full: 5 MiB are free in"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			of := l.volume(map[string]string{"x": "y"})
			l.cfg.Terms.Hours = tt.hours
			b := build.New(l.cfg)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			full := make(chan struct{})
			b.Free(func(string) (int64, error) {
				select {
				case <-full:
					return 5 << 20, nil
				default:
					return 5 << 30, nil
				}
			})
			go func() {
				_, err := b.Start(ctx, job(l.waits(of)))
				ended <- err
			}()
			if tt.hours == 0 {
				l.steps(1)
			}
			if tt.full {
				close(full)
			} else if tt.hours == 0 {
				cancel()
			}
			if err := <-ended; err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			cancel()
			l.steps(0)
			if tt.full {
				if err := b.Prepare(t.Context(), job(l.waits(of))); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("begun: %v", err)
				}
			}
			if _, ok := l.there(); ok {
				t.Error("the image is there")
			}
		})
	}
}

// TestABuildFillsTheDiskForMinutes, a real one: it is ended before the disk is full, and what it wrote is gone.
func TestABuildFillsTheDiskForMinutes(t *testing.T) {
	p := enginetest.Private(t, enginetest.Disk(1<<30+1<<29))
	e := p.Engine()
	free := func() int64 {
		info, err := e.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, err := space.Free(info.DockerRootDir)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := free()
	cfg := config(enginetest.Scope(t))
	cfg.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, p.Host()) }
	l := &lab{t: t, engine: e, outcome: "outcome:1", cfg: cfg}
	_, err := l.run(build.New(cfg), made(l.outcome, "", "FROM "+enginetest.TestImage, "RUN for i in $(seq 100); do head -c 50M /dev/zero > /full.$i || exit 9; sleep 0.2; done"))
	if err == nil || !strings.Contains(err.Error(), "the disk is full: ") {
		t.Errorf("got %v", err)
	}
	if _, ok := l.there(); ok {
		t.Error("the image is there")
	}
	if after := free(); after < before-(8<<20) {
		t.Errorf("%d MiB are free, before it were %d", after>>20, before>>20)
	}
}

const childOf = "SWARM_TEST_BUILD_OF"

// TestAHostIsKilledInABuild: the engine ends the step at once, and the next process builds the image.
func TestAHostIsKilledInABuild(t *testing.T) {
	if of := os.Getenv(childOf); of != "" { // the host that is killed
		scope, outcome, _ := strings.Cut(of, " ")
		l := &lab{t: t, outcome: outcome}
		_, err := build.New(config(scope)).Start(t.Context(), job(l.waits("context-"+scope)))
		t.Fatal(err)
	}
	l := newLab(t)
	of := l.volume(map[string]string{"x": "y"})
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAHostIsKilledInABuild$") //nolint:gosec // this program
	child.Env = append(os.Environ(), childOf+"="+l.scope+" "+l.outcome)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	l.steps(1)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	l.steps(0)
	l.fill(of, map[string]string{"go": ""})
	b := build.New(l.cfg)
	found, err := b.Find(t.Context())
	if err != nil || len(found) != 1 || found[0].Label != job(nil).Label || found[0].State != task.Prepared {
		t.Errorf("found %+v, %v", found, err)
	}
	if s, err := l.run(b, l.waits(of)); err != nil || s.Code != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := b.Clean(t.Context(), job(nil).Label); err != nil {
		t.Error(err)
	}
	if _, ok := l.there(); !ok {
		t.Error("the image is not there")
	}
}

func TestWhatIsNoBuild(t *testing.T) {
	cfg := config("none")
	cfg.Open = func(context.Context) (*engine.Engine, error) {
		t.Error("the engine is reached")
		return nil, context.Canceled
	}
	for _, tt := range []struct {
		task *task.Task
		want string
	}{
		{made("swarmd", "", "FROM a"), "give Outcome another name"},
		{made("docker.io/library/swarmd:9", "", "FROM a"), "give Outcome another name"},
		{made("A B", "", "FROM a"), "bad Outcome"},
		{made("a@sha256:"+strings.Repeat("0", 64), "", "FROM a"), "a digest can't be given"},
		{made("a", "/etc", "FROM a"), "is no name of a volume"},
		{made("a", "", "RUN x"), "BuildSteps: line 1"},
		{&task.Task{Name: "p", Type: task.PullImage, Definition: []byte("OrgAndReg : a\nRepoName : b\nTag : c\nAuth : null\n")}, "is no MAKE_USER_CONTAINER"},
		{&task.Task{Name: "r", Type: task.MakeUserContainer, Definition: []byte("BuildContext : null\nBuildType : REMOTE\nBuildSteps : [FROM a]\n")}, "REMOTE was never made: use INLINE"},
	} {
		b := build.New(cfg)
		if err := b.Prepare(t.Context(), job(tt.task)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
		if _, err := b.Start(t.Context(), job(tt.task)); err == nil {
			t.Errorf("%q starts", tt.want)
		}
	}
}

var _ build.Images = (*images.Puller)(nil)
