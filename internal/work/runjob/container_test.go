package runjob_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/runjob"
)

// lab is a host with a container engine.
type lab struct {
	host

	t     *testing.T
	e     *engine.Engine
	scope string
}

func newLab(t *testing.T) lab {
	t.Helper()
	l := lab{newHost(t), t, enginetest.Engine(t), enginetest.Scope(t)}
	if err := l.containers().Watch.Lease(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // what a test that fails has left
		live, err := registry.List(l.scope)
		for _, e := range live {
			err = errors.Join(err, syscall.Kill(e.PID, syscall.SIGKILL))
		}
		if err != nil {
			t.Error(err)
		}
	})
	return l
}

// containers are those of a SWOP that was just started.
func (l lab) containers() *runjob.Containers {
	return &runjob.Containers{
		Node: "swop-1", Scope: l.scope, Open: func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, "") },
		Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }, Paths: hostpaths.NewHere(), Limits: policy.Limits{CPUs: 2, Memory: 4 << 30}, Watch: &runjob.Watch{Dir: l.dir, Swarmd: l.swarmd, Node: "swop-1", Scope: l.scope, Log: slog.New(slog.DiscardHandler)},
		Log: slog.New(slog.DiscardHandler),
	}
}

// jobs are the members of a job on one host, whose image was decided on.
func (l lab) jobs(n int, files map[string]string, lines ...string) (all []work.Job) {
	l.t.Helper()
	j := one(files, lines...)
	image, err := l.containers().Image(l.t.Context(), j.Task)
	if err != nil {
		l.t.Fatal(err)
	}
	j.Image = image
	site := j.World[0]
	j.World = nil
	for range n {
		j.World = append(j.World, site)
	}
	for i := range n {
		j.Member = uint32(i)
		all = append(all, j)
	}
	return all
}

// start prepares members, all at a time as a host does, and starts them.
func (l lab) start(c *runjob.Containers, jobs []work.Job) {
	l.t.Helper()
	var all errgroup.Group
	for _, j := range jobs {
		all.Go(func() error { return c.Prepare(l.t.Context(), j) })
	}
	if err := all.Wait(); err != nil {
		l.t.Fatal(err)
	}
	for _, s := range l.found(c, len(jobs)) {
		if s.State != task.Prepared {
			l.t.Fatalf("prepared: %+v", s)
		}
	}
	for _, j := range jobs {
		if s, err := c.Start(l.t.Context(), j); err != nil || s.State != task.Started {
			l.t.Fatal(s, err)
		}
	}
}

// found are the first n members, by index.
func (l lab) found(c *runjob.Containers, n int) []work.Found {
	l.t.Helper()
	all, err := c.Find(l.t.Context())
	if err != nil || len(all) != n {
		l.t.Fatalf("found %+v, %v", all, err)
	}
	slices.SortFunc(all, func(a, b work.Found) int { return int(a.Member) - int(b.Member) })
	return all
}

// until looks until all members are in a state.
func (l lab) until(c *runjob.Containers, n int, want task.State) []work.Found {
	l.t.Helper()
	deadline := time.After(enginetest.Timeout)
	for {
		all := l.found(c, n)
		if !slices.ContainsFunc(all, func(f work.Found) bool { return f.State != want }) {
			return all
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			l.t.Fatalf("still %+v", all)
		}
	}
}

func (l lab) lines(c *runjob.Containers, j work.Job) string {
	l.t.Helper()
	var all []string
	if err := c.Print(l.t.Context(), j.Label, 100, false, func(_, line string) error {
		all = append(all, line)
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

// clean removes all members, and holds that nothing is left, neither of them nor of their network.
func (l lab) clean(c *runjob.Containers, jobs []work.Job) {
	l.t.Helper()
	for range 2 { // the second time nothing is left to do
		for _, j := range jobs {
			if err := c.Clean(l.t.Context(), j.Label); err != nil {
				l.t.Fatal(err)
			}
		}
	}
	l.found(c, 0)
	if live, err := registry.List(l.scope); err != nil || len(live) > 0 {
		l.t.Errorf("still runs: %+v, %v", live, err)
	}
	if left := enginetest.Left(l.t, l.e, l.scope); len(left) > 0 {
		l.t.Errorf("left: %q", left)
	}
}

// TestRanksOfPyTorch holds that two ranks find each other in a network of their own, add up what they have, and have no way out; and that a restarted
// host finds how they ended.
func TestRanksOfPyTorch(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, engine.ImagePYT, "scripts/images pyt")
	jobs := l.jobs(2, python(
		"import json, os, socket, torch, torch.distributed as dist",
		"dist.init_process_group('gloo', init_method='env://')",
		"x = torch.ones(3) * (dist.get_rank() + 1)",
		"dist.all_reduce(x)",
		"nodes = [json.load(open(f)) for f in (os.environ['CLUSTER_NODES_METADATA_FILE'], '/home/datascience/job_run_cluster_metadata.json')]",
		"assert nodes[0] == nodes[1] and [n['Rank'] for n in nodes[0]] == ['0', '1']",
		"assert [socket.gethostbyname(n['FQDN']) for n in nodes[0]] == [n['IPAddress'] for n in nodes[0]]",
		"assert socket.gethostname() == os.environ['SWARM_NODE_FQDN'] == 'node-%d' % dist.get_rank()",
		"print('rank', dist.get_rank(), x.tolist(), len(socket.if_nameindex()), 'interfaces')",
		"open('written', 'w').write('x')",
		"dist.destroy_process_group()",
	), "framework: pytorch", "image: "+engine.ImagePYT, "replicas: 2", "command: train.py")
	c := l.containers()
	l.start(c, jobs)
	networks, err := l.e.NetworkList(t.Context(), network.ListOptions{Filters: filters.NewArgs(filters.Arg("label", engine.LabelScope+"="+l.scope))})
	if err != nil || len(networks) != 1 || !networks[0].Internal { // out of which the engine lets nothing
		t.Errorf("networks %+v, %v", networks, err)
	}
	for i, f := range l.until(l.containers(), 2, task.Exited) {
		if f.Code != 0 || f.Label != jobs[i].Label {
			t.Errorf("%+v", f)
		}
		if got, want := l.lines(c, jobs[i]), "rank "+string(rune('0'+i))+" [3.0, 3.0, 3.0] 2 interfaces"; !strings.Contains(got, want) {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
	l.clean(c, jobs)
}

// TestRanksInTheHostsNetwork holds that ranks find each other there too, by name and by the interface that has their address.
func TestRanksInTheHostsNetwork(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, engine.ImagePYT, "scripts/images pyt")
	jobs := l.jobs(2, python(
		"import os, socket, torch, torch.distributed as dist",
		"assert os.environ['GLOO_SOCKET_IFNAME'] == 'lo' and socket.gethostbyname('node-1') == '127.0.0.1'",
		"dist.init_process_group('gloo')",
		"x = torch.ones(1)",
		"dist.all_reduce(x)",
		"print('sum', x.item())",
	), "framework: pytorch", "image: "+engine.ImagePYT, "replicas: 2", "network: host", "command: train.py", "env: {MASTER_PORT: 29477}")
	c := l.containers()
	l.start(c, jobs)
	for i, f := range l.until(c, 2, task.Exited) {
		if got := l.lines(c, jobs[i]); f.Code != 0 || !strings.Contains(got, "sum 2.0") {
			t.Errorf("%+v: %s", f, got)
		}
	}
	l.clean(c, jobs)
}

// TestMembersInContainersAreReadyAndEnd holds that they are asked in their container, that they are asked to end, and how they fail.
func TestMembersInContainersAreReadyAndEnd(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	jobs := l.jobs(1, map[string]string{"up.sh": "#!/bin/sh\ntouch /tmp/up\nwhile :; do sleep 1; done\n"},
		"image: "+enginetest.TestImage, "command: ./up.sh", "ready: {command: test -f /tmp/up, period: 1s}", "grace: 1s", "resources: {cpu: 0.5, memory: 64MiB}")
	c := l.containers()
	l.start(c, jobs)
	if f := l.until(c, 1, task.Ready)[0]; f.Text != "container, network of the job's members alone" {
		t.Errorf("%+v", f)
	}
	l.clean(c, jobs)

	jobs = l.jobs(1, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "network: host", "grace: 1s")
	l.start(c, jobs)
	if f := l.until(c, 1, task.Ready)[0]; f.Text != "container, open: network host" {
		t.Errorf("%+v", f)
	}
	l.clean(c, jobs)

	jobs = l.jobs(1, map[string]string{"fails.sh": "#!/bin/sh\necho boom\nexit 3\n"}, "image: "+enginetest.TestImage, "command: ./fails.sh", "network: host")
	l.start(c, jobs)
	ended := l.until(c, 1, task.Exited)[0]
	if ended.Code != 3 || ended.Said != "boom" {
		t.Errorf("%+v", ended)
	}
	if _, err := l.containers().Start(t.Context(), jobs[0]); err != nil { // as a host does that was ended before it heard of the first
		t.Error(err)
	}
	if again := l.until(c, 1, task.Exited)[0]; again != ended {
		t.Errorf("it ran twice: %+v", again)
	}
	l.clean(c, jobs)
}

// TestWhatIsLeftOfAPreparation is found, and removed, also where it is the network alone.
func TestWhatIsLeftOfAPreparation(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	jobs := l.jobs(2, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "replicas: 2")
	c := l.containers()
	for _, j := range jobs {
		if err := c.Prepare(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	bad := jobs[0]
	bad.World[1].Node = "swop-2"
	if err := c.Prepare(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "private network, which is on one host") {
		t.Errorf("on two hosts: %v", err)
	}
	bad.World[1].Node = "swop-1"
	second := l.containers()
	if err := second.Clean(t.Context(), jobs[0].Label); err != nil {
		t.Fatal(err)
	}
	l.found(second, 1)
	l.clean(second, jobs)
}

// TestContainersEndWithTheirLease holds that members are ended when nobody prolongs their lease, though their SWOP does nothing, and not before.
func TestContainersEndWithTheirLease(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	c := l.containers()
	file := filepath.Join(l.dir, "lease")
	lease, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	jobs := l.jobs(1, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "grace: 1s")
	l.start(c, jobs)
	if live, err := registry.List(l.scope); err != nil || len(live) != 1 { // its SWOP may be killed before it looks
		t.Errorf("what was started is watched by %+v, %v", live, err)
	}
	l.until(c, 1, task.Ready)
	if now, err := os.ReadFile(file); err != nil || string(now) != string(lease) {
		t.Errorf("the lease was %s, and is %s without a word of the host's, %v", lease, now, err)
	}
	if err := c.Watch.Lease(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if f := l.until(c, 1, task.Exited)[0]; f.Code != 143 && f.Code != 137 {
		t.Errorf("%+v", f)
	}
	l.clean(c, jobs)
}

// TestMembersAreCleanedAtOnce, as when a job has ended: neither their network is left nor who watches them.
func TestMembersAreCleanedAtOnce(t *testing.T) {
	l := newLab(t)
	c := l.containers()
	jobs := l.jobs(3, nil, "image: "+enginetest.TestImage, "command: sleep 100", "replicas: 3", "grace: 1s")
	l.start(c, jobs)
	var all errgroup.Group
	for _, j := range jobs {
		all.Go(func() error { return c.Clean(t.Context(), j.Label) })
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	l.found(c, 0)
	if live, err := registry.List(l.scope); err != nil || len(live) > 0 {
		t.Errorf("there is still a watch: %+v, %v", live, err)
	}
}

// TestNothingStartsWithoutAWatch holds that a container is not started where nobody would end it with the lease.
func TestNothingStartsWithoutAWatch(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	c := l.containers()
	jobs := l.jobs(1, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "grace: 1s")
	if err := c.Prepare(t.Context(), jobs[0]); err != nil {
		t.Fatal(err)
	}
	c.Watch.Swarmd = filepath.Join(l.dir, "nothing")
	if _, err := c.Start(t.Context(), jobs[0]); err == nil {
		t.Error("it was started")
	}
	if f := l.found(c, 1)[0]; f.State != task.Prepared {
		t.Errorf("%+v", f)
	}
	l.clean(c, jobs)
}

// TestAQuestionThatHangsIsEnded holds that a command that outlasts its time is killed with all that it has started, that whoever asks learns of it, and that
// it is run again. One that this process can't see runs once, and not with each question.
func TestAQuestionThatHangsIsEnded(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	jobs := l.jobs(1, map[string]string{"asks.sh": "#!/bin/sh\necho x >>/tmp/asked\n[ $(wc -l </tmp/asked) -gt 1 ] && exit 0\nsleep 2000\nexit 1\n"},
		"image: "+enginetest.TestImage, "command: sleep 1000", "ready: {command: ./asks.sh, period: 1s, timeout: 1s}", "grace: 1s")
	c := l.containers()
	l.start(c, jobs)
	l.says(c, "outlasted its timeout and was ended")
	l.until(c, 1, task.Ready)
	if asks := l.questions(); asks != 0 {
		t.Errorf("%d of what it has started still run", asks)
	}
	l.clean(c, jobs)

	unseen := enginetest.Between(t, l.e, enginetest.Faults{Answer: func(r *http.Response) error {
		if !strings.Contains(r.Request.URL.Path, "/exec/") || !strings.HasSuffix(r.Request.URL.Path, "/json") {
			return nil
		}
		var state container.ExecInspect
		if err := json.NewDecoder(r.Body).Decode(&state); err != nil {
			return err
		}
		state.Pid = os.Getpid() // of another process, as on another machine
		raw, err := json.Marshal(state)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(raw))), int64(len(raw))
		r.Header.Del("Content-Length")
		return err
	}})
	jobs = l.jobs(1, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "ready: {command: sleep 2000, period: 1s, timeout: 1s}", "grace: 1s")
	c.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, unseen) }
	l.start(c, jobs)
	l.says(c, "outlasted its timeout, and is run again when it has ended")
	if asks := l.questions(); asks != 1 {
		t.Errorf("%d questions run", asks)
	}
	l.clean(c, jobs)
}

// says waits until the only member says something.
func (l lab) says(c *runjob.Containers, what string) {
	l.t.Helper()
	deadline := time.After(enginetest.Timeout)
	for f := l.found(c, 1)[0]; !strings.Contains(f.Text, what); f = l.found(c, 1)[0] {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			l.t.Fatalf("%+v", f)
		}
	}
}

// questions counts what runs of them in the only container.
func (l lab) questions() (n int) {
	l.t.Helper()
	all, err := l.e.ContainerList(l.t.Context(), container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", engine.LabelScope+"="+l.scope))})
	if err != nil || len(all) != 1 {
		l.t.Fatal(all, err)
	}
	top, err := l.e.ContainerTop(l.t.Context(), all[0].ID, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, p := range top.Processes {
		if strings.HasSuffix(strings.Join(p, " "), "sleep 2000") {
			n++
		}
	}
	return n
}

// TestAnEngineWithoutInit holds that members run at one that can't put an init process into containers, and says so when it starts one.
func TestAnEngineWithoutInit(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	hasInit := func(id string) bool {
		x, err := l.e.ContainerInspect(context.WithoutCancel(t.Context()), id)
		return err == nil && x.HostConfig.Init != nil && *x.HostConfig.Init
	}
	var refused atomic.Int32
	proxy := enginetest.Between(t, l.e, enginetest.Faults{Answer: func(r *http.Response) error {
		path, start := strings.CutSuffix(r.Request.URL.Path, "/start")
		if start && hasInit(path[strings.LastIndexByte(path, '/')+1:]) {
			refused.Add(1)
			text := `{"message": "exec: \"docker-init\": executable file not found in $PATH"}`
			r.StatusCode, r.Body, r.ContentLength = http.StatusInternalServerError, io.NopCloser(strings.NewReader(text)), int64(len(text))
			r.Header = http.Header{"Content-Type": {"application/json"}}
		}
		return nil
	}})
	c := l.containers()
	c.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, proxy) }
	jobs := l.jobs(1, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "grace: 1s")
	l.start(c, jobs)
	l.until(c, 1, task.Ready)
	l.clean(c, jobs)
	l.start(c, jobs) // which is known by now
	l.until(c, 1, task.Ready)
	l.clean(c, jobs)
	if n := refused.Load(); n != 1 {
		t.Errorf("%d starts were refused", n)
	}
}

// TestANetworkThatWasBegun holds that a member is prepared whose host was killed while its network was made, and where another takes its subnet.
func TestANetworkThatWasBegun(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	var cut atomic.Bool
	var overlaps atomic.Int32
	proxy := enginetest.Between(t, l.e, enginetest.Faults{Ask: func(r *http.Request) error {
		if cut.Load() && r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/networks/") {
			return errors.New("cut")
		}
		return nil
	}, Answer: func(r *http.Response) error {
		if r.Request.Method != http.MethodPost || !strings.HasSuffix(r.Request.URL.Path, "/networks/create") || r.StatusCode >= 400 || overlaps.Add(1) != 3 {
			return nil
		}
		var made network.CreateResponse
		if err := json.NewDecoder(r.Body).Decode(&made); err != nil {
			return err
		}
		if err := l.e.NetworkRemove(context.WithoutCancel(t.Context()), made.ID); err != nil {
			return err
		}
		text := `{"message": "invalid pool request: Pool overlaps with other one on this address space"}`
		r.StatusCode, r.Body, r.ContentLength = http.StatusForbidden, io.NopCloser(strings.NewReader(text)), int64(len(text))
		r.Header = http.Header{"Content-Type": {"application/json"}}
		return nil
	}})
	c := l.containers()
	c.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, proxy) }
	jobs := l.jobs(1, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "grace: 1s")
	cut.Store(true)
	if err := c.Prepare(t.Context(), jobs[0]); err == nil {
		t.Error("its network was not made, and it is prepared")
	}
	cut.Store(false)
	l.start(c, jobs)
	l.until(c, 1, task.Ready)
	if n := overlaps.Load(); n != 5 { // one that is left, a second try of which the network is refused, and a third
		t.Errorf("%d networks were made", n)
	}
	l.clean(c, jobs)
}
