package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/containers"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/ownimage"
)

// tasks are those of a swarm.
type tasks map[string]*task.Task

func (t tasks) Task(_ context.Context, name string) (*task.Task, error) { return t[name], nil }

func (t tasks) add(name, kind, prereq, outcome, body string) *task.Task {
	x := &task.Task{Name: name, Type: kind, Prereq: prereq, Outcome: outcome, Definition: []byte(body)}
	if before := t[prereq]; before != nil {
		x.PrereqDigest = before.Digest
	}
	x.Digest = x.Sum()
	t[name] = x
	return x
}

const profile = `
groupname : grp
taskrunner : defaulttaskbb.taskdb.sml.hpe
policyuri : null
resourcemgr : {mgrtype : DOCKER, accessinfo : {accesstype : FROMENV}}
network : NET
apls : {locator : {host : 172.1.1.1, port : null}}
apisrv : {locator : {host : SN, port : null, service : null}}
envvars :
  - SWARM_LOG_LEVEL : info
nodes :
  - slnodedef : {idx : 0, identity : [], slhostname : sl0, usrhostname : user0, privatedata : {src : DATA, mType : BIND}, slenvvars : null, usrenvvars : [SEED : 1], usrlabels : {who : first}}
  - slnodedef : {idx : 1, identity : [], slhostname : sl1, usrhostname : user1, privatedata : {src : DATA, mType : BIND}, slenvvars : null, usrenvvars : [SEED : 2]}
`

const runSwarm = `
Command : model/train.py
Entrypoint : python3 -u
WorkingDir : /tmp/test
Envvars : ["CONTRACT": CONTRACT, "BATCHES": 30, "BATCH_SECONDS": 0.1, "SEED": 7, "EXIT_AT": -1, "EXIT_CODE": 3]
PrivateContent : /tmp/test/private
SharedContent : [{Src : MODEL, Tgt : /tmp/test/model, MType : BIND}]
`

// host is a SWOP's executor in a swarm of one SN.
func (s *site) host(t tasks) func(contained bool) *containers.Runner {
	s.t.Helper()
	s.makeNet()
	e2etest.Start(s.t, "authority", s.dir, nil, "swarmd", "run-authority", "--dir", s.path("ca")).Sees("embedded authority started")
	env := start.Env{Getenv: func(k string) string {
		if k == "SWARM_SCOPE" {
			return s.scope
		}
		return os.Getenv(k)
	}, Version: "test"}
	sn := start.SN{Node: start.Node{Name: s.name("sn1"), Host: s.name("sn1"), Identity: "embedded=" + s.path("ca"), Container: component.Options{Network: s.net, Detach: true}}, SentinelHost: s.name("sn1"), FoundAtOnce: true}
	spec, err := sn.Component(env)
	if err != nil {
		s.t.Fatal(err)
	}
	var said bytes.Buffer
	if _, err := component.Run(s.t.Context(), s.engine, spec, component.IO{Stdout: &said, Stderr: &said, Getenv: env.Getenv, Log: slog.New(slog.NewTextHandler(&said, nil))}); err != nil {
		s.t.Fatalf("start SN: %v\n%s", err, &said)
	}
	(&e2etest.Swarm{T: s.t, Dir: s.dir}).CopyProgram(s.path("model"))
	if err := os.Mkdir(s.path("data"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	p, _, err := taskfile.ReadProfile("profile", []byte(s.fill(profile)))
	if err != nil {
		s.t.Fatal(err)
	}
	return func(contained bool) *containers.Runner {
		if contained { // it looks at no file of the host, then
			plain := env.Getenv
			env.Getenv = func(k string) string {
				if k == start.InContainer {
					return "1"
				}
				return plain(k)
			}
		}
		image := s.name("sl-image") + ":1"
		s.named(engine.ImageSwarmd, image)
		r := &containers.Runner{
			Profile: p, Node: s.name("swop"), Host: start.Node{Host: "127.0.0.1", Identity: "embedded=" + s.path("ca")}, Own: ownimage.New(image, slog.New(slog.DiscardHandler)), SNs: []string{s.name("sn1")},
			Tasks: t, Open: engine.Open, Paths: hostpaths.NewHere(), Terms: policy.Terms{Limits: policy.Limits{CPUs: 4, Memory: 4 << 30}}, Env: env, Log: slog.New(slog.DiscardHandler),
		}
		if _, err := r.Find(s.t.Context()); err != nil { // as a host does when it starts
			s.t.Fatal(err)
		}
		s.named(enginetest.TestImage, image) // which has no swarmd: what SLs are started from is known by now
		return r
	}
}

// fill gives a file of the original's style the paths and names of this test.
func (s *site) fill(text string) string {
	return strings.NewReplacer("NET", s.net, ": SN", ": "+s.name("sn1"), "DATA", s.path("data"), "MODEL", s.path("model")).Replace(text)
}

// becomes waits until an executor finds its only member in a state.
func (s *site) becomes(r *containers.Runner, want task.State) work.Status {
	s.t.Helper()
	var last []work.Found
	(&e2etest.Swarm{T: s.t, Dir: s.dir}).Until("a member that is "+string(want), func() bool {
		found, err := r.Find(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		if last = found; len(found) == 1 && found[0].State == task.Exited && want != task.Exited {
			s.t.Fatalf("it ended: %+v", found[0])
		}
		return len(found) == 1 && found[0].State == want
	})
	return last[0].Status
}

// TestRunSwarmInContainers: a task in the original's style starts the two SLs of a host's profile with their programs, which train to one
// model; another host process finds how they end. A program that fails ends its member with its last lines, and Clean ends what runs.
func TestRunSwarmInContainers(t *testing.T) {
	s, all := newSite(t), tasks{}
	host := s.host(all)
	outcome := s.name("outcome") + ":1"
	s.named(enginetest.TestImage, outcome)
	all.add("image", task.PullImage, task.Root, outcome, "RepoName : x\nTag : 1\nOrgAndReg : o\nAuth : null\n")
	body := s.fill(runSwarm)
	job := func(id, body string) work.Job {
		x := all.add("run", task.RunSwarm, "image", "out", strings.ReplaceAll(body, ": CONTRACT", ": c"+id))
		return work.Job{Label: work.Label{Swarm: "swarm", Node: s.name("swop"), Assignment: id, Epoch: 1}, Assignment: task.Request{ID: id, Task: x.Name}, Task: x, Grant: work.Grant{
			Paths: map[string]string{s.path("model"): s.path("model")},
		}}
	}
	begin := func(r *containers.Runner, j work.Job) {
		t.Helper()
		var err error
		if j.Image, err = r.Image(t.Context(), j.Task); err != nil {
			t.Fatal(err)
		}
		if err := r.Prepare(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		// Whoever may have images fetched may give the name to another one.
		s.named(enginetest.Labelled(t, s.engine, map[string]string{"x": j.Label.Assignment}), outcome)
		defer s.named(enginetest.TestImage, outcome)
		if got, err := r.Start(t.Context(), j); err != nil || got.State != task.Started {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	j := job("7", body)
	begin(host(false), j)
	r := host(false) // the host's process has ended, and begun anew
	s.becomes(r, task.Ready)
	names := s.containersOf(j.Label)
	for _, name := range names {
		if !regexp.MustCompile(`^grp-run-s-[01]-[0-9a-f]{16}$`).MatchString(name) {
			t.Errorf("an SL's container is named %s", name)
		}
	}
	s.programsOf(names)
	if got := s.becomes(r, task.Exited); got.Code != 0 || len(names) != 2 || finalDigest(t, names[0], s.log(names[0])) != finalDigest(t, names[1], s.log(names[1])) {
		t.Errorf("%+v of %v", got, names)
	}
	s.cleans(r, j.Label)

	r = host(true) // as a SWOP in a container has it
	j = job("8", strings.Replace(body, `"EXIT_AT": -1`, `"EXIT_AT": 2`, 1))
	begin(r, j)
	if got := s.becomes(r, task.Exited); got.Code != 3 || !strings.Contains(got.Said, "about to give up") {
		t.Errorf("%+v", got)
	}
	s.cleans(r, j.Label)

	j = job("9", strings.Replace(body, `"BATCHES": 30`, `"BATCHES": 1000000`, 1))
	begin(r, j)
	s.becomes(r, task.Ready)
	s.cleans(r, j.Label)
	s.stopsClean()
}

// named gives an image at the engine a name, until the test ends.
func (s *site) named(what, name string) {
	s.t.Helper()
	if err := s.engine.ImageTag(s.t.Context(), what, name); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _, _ = s.engine.ImageRemove(context.Background(), name, image.RemoveOptions{}) }) // of several calls the first removes it
}

// programsOf wants beside each SL its program's container, which is called as the profile says, from the image that was decided on.
func (s *site) programsOf(sls []string) {
	s.t.Helper()
	decided, err := s.engine.ImageInspect(s.t.Context(), enginetest.TestImage)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, sl := range sls {
		name := strings.Replace(sl, "-s-", "-u-", 1)
		c, err := s.engine.ContainerInspect(s.t.Context(), name)
		if err != nil {
			s.t.Fatal(err)
		}
		if h := c.HostConfig; h.NanoCPUs != 2e9 || h.Memory != 2<<30 || h.MemorySwap != 2<<30 || h.PidsLimit == nil || *h.PidsLimit != 4096 {
			s.t.Errorf("%s is held to %d CPUs (billionths), %d bytes of memory, %d with swap, and %v processes", name, h.NanoCPUs, h.Memory, h.MemorySwap, h.PidsLimit)
		}
		first := strings.Contains(name, "-u-0-")
		if c.Image != decided.ID || c.Config.WorkingDir != "/tmp/test" || c.Config.Hostname != "user"+name[len("grp-run-u-"):][:1] || (c.Config.Labels["who"] == "first") != first {
			s.t.Errorf("%s from %s: %+v", name, c.Image, c.Config)
		}
	}
}

// containersOf names the containers with SLs of a member.
func (s *site) containersOf(l work.Label) (names []string) {
	s.t.Helper()
	all, err := s.engine.ContainerList(s.t.Context(), container.ListOptions{All: true})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range all {
		if c.Labels[engine.LabelAssignment] == l.Assignment && c.Labels[engine.LabelScope] == s.scope {
			names = append(names, strings.TrimPrefix(c.Names[0], "/"))
		}
	}
	return names
}

// cleans wants that nothing is left of a member but the SLs' keys.
func (s *site) cleans(r *containers.Runner, l work.Label) {
	s.t.Helper()
	if err := r.Clean(s.t.Context(), l); err != nil {
		s.t.Fatal(err)
	}
	var want []string
	for i := range 2 {
		want = append(want, fmt.Sprintf("volume %s", component.StateVolume(s.scope, fmt.Sprintf("%s-sl-%d", s.name("swop"), i))))
	}
	for _, x := range enginetest.Left(s.t, s.engine, s.scope) {
		if !strings.Contains(x, s.name("sn1")) && x != want[0] && x != want[1] {
			s.t.Errorf("%s is left of assignment %s", x, l.Assignment)
		}
	}
}
