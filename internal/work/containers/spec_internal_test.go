package containers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

func runner() *Runner {
	return &Runner{
		Profile:        &taskfile.Profile{Nodes: []taskfile.Node{{}}, GroupName: "grp", Network: "net", DNS: []string{"9.9.9.9"}, Env: []taskfile.Var{{Name: "A", Value: "1"}, {Name: "B", Value: "1"}}},
		SessionTimeout: start.Limit(time.Hour), Node: "swop", Host: start.Node{Host: "10.0.0.1", Identity: "embedded=/ca"}, SNs: []string{"sn"}, Log: slog.New(slog.DiscardHandler),
	}
}

func node() *taskfile.Node {
	return &taskfile.Node{
		Index: 1, SLHostname: "sl1", PrivateData: taskfile.Source{Src: "/srv/data", MountType: "BIND"}, SLEnv: []taskfile.Var{{Name: "B", Value: "2"}},
		UserEnv: []taskfile.Var{{Name: "EPOCHS", Value: "9"}}, SLLabels: []taskfile.Var{{Name: "of", Value: "x"}}, SLAddress: "172.1.1.2",
		UserHostname: "user1", UserAddress: "172.1.1.3", UserLabels: []taskfile.Var{{Name: "who", Value: "user"}},
		User: taskfile.ContainerOptions{GPUs: "device=3,5", ShmSize: "2g", CapAdd: []string{"SYS_PTRACE"}},
	}
}

func run() taskfile.RunSwarm {
	return taskfile.RunSwarm{
		Entrypoint: "python3 -u", Command: "model/x.py 'a b'", WorkingDir: "/tmp/test", Env: []taskfile.Var{{Name: "EPOCHS", Value: "1"}, {Name: "X", Value: ""}},
		PrivateContent: "/tmp/test/private", SharedContent: []taskfile.Shared{{Src: "vol", Tgt: "/v", MountType: "VOLUME"}, {Src: "/srv/model", Tgt: "/tmp/test/model", MountType: "BIND"}},
	}
}

// leads are where paths lead.
var leads = map[string]string{"/srv/model": "/disk/model", "/srv/data": "/disk/data", "/srv/odd": "/srv/a:b", "vol": "/never"}

func job() work.Job {
	return work.Job{Label: work.Label{Swarm: "s", Node: "swop", Assignment: "7", Epoch: 2, Member: 3}, Task: &task.Task{Name: "train", Type: task.RunSwarm, Prereq: "image"}}
}

// TestAnSLOfTheProfile holds what each field of task and profile comes to.
func TestAnSLOfTheProfile(t *testing.T) {
	r, n := runner(), node()
	got, err := r.sl(n, job(), run(), "sha256:1", leads)
	if err != nil {
		t.Fatal(err)
	}
	hex := strings.TrimPrefix(got.Container.Name, "grp-train-s-1-")
	if len(hex) != 16 || got.ML.Name != "grp-train-u-1-"+hex {
		t.Errorf("containers are named %s and %s", got.Container.Name, got.ML.Name)
	}
	want := start.SL{
		Node: start.Node{Name: "swop-sl-1", Host: "172.1.1.2", Identity: "embedded=/ca"}, SNs: []string{"sn"}, GPUs: "3,5", SessionTimeout: start.Limit(time.Hour),
		Part: task.Part{Host: "swop", Assignment: "7", Epoch: 2, Member: 3}, LogsTo: []string{"none"},
	}
	want.Container.Name, want.Container.Hostname, want.Container.Network, want.Container.IP, want.Container.Detach = got.Container.Name, "sl1", "net", "172.1.1.2", true
	want.Container.Env, want.Container.Labels, want.Container.DNS = []string{"A=1", "B=2"}, []string{"of=x"}, []string{"9.9.9.9"}
	want.ML = start.ML{
		Runtime: "docker", Image: "sha256:1", Entrypoint: start.Words{"python3", "-u"}, Cmd: start.Words{"model/x.py", "a b"}, WorkDir: "/tmp/test", Name: got.ML.Name,
		Volumes: []string{"/disk/data:/tmp/test/private", "vol:/v", "/disk/model:/tmp/test/model"}, Env: []string{"EPOCHS=9", "X="}, Network: "net", ShmSize: 2 << 30,
		CapAdd: []string{"SYS_PTRACE"}, Hostname: "user1", IP: "172.1.1.3", DNS: []string{"9.9.9.9"}, Labels: []string{"who=user"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	n.SLEnv = append(n.SLEnv, taskfile.Var{Name: "SWARM_SESSION_TIMEOUT", Value: "5m"}) // the owner's word
	n.UserAddress = ""
	if got, err = r.sl(n, job(), run(), "i", leads); err != nil || got.ML.Network != "" || got.ML.IP != "" || got.ML.DNS != nil || got.Container.Network != "net" || got.SessionTimeout != 0 {
		t.Errorf("a program without a place in the network: %v, %+v", err, got.ML)
	}
	n.SLHostIP, n.SLPort, n.SLFSService = "", 16000, ""
	n.SLAddress = ""
	if got, err = r.sl(n, job(), run(), "i", leads); err != nil || got.Host != "10.0.0.1" || got.FSPort != 16000 || !cmp.Equal(got.Container.Publish, []string{"16000:16000"}) {
		t.Errorf("with a port: %v, %+v", err, got.Node)
	}
	n.SLPort = 0
	if got, err = r.sl(n, job(), run(), "i", leads); err != nil || got.Host != got.Container.Name || got.Container.Publish != nil {
		t.Errorf("in the network: %v, %+v", err, got.Node)
	}
	n.SLFSService = "fs.example:9000"
	if got, err = r.sl(n, job(), run(), "i", leads); err != nil || got.Host != "fs.example" || got.FSPort != 9000 {
		t.Errorf("behind a proxy: %v, %+v", err, got.Node)
	}
	n.Identity = []taskfile.Attribute{{Kind: "KEY", MountType: "BIND", Src: "/c/k"}, {Kind: "CERT", MountType: "BIND", Src: "/c", SubPath: "c"}, {Kind: "CAPATH", MountType: "BIND", Src: "/c/ca"}, {Kind: "SPIFFE_SOCKETPATH", MountType: "BIND", Src: "/run/a.sock"}}
	if got, err = r.sl(n, job(), run(), "i", leads); err != nil || got.Key != "/c/k" || got.Cert != "/c/c" || got.CAPath != "/c/ca" || got.SocketPath != "/run/a.sock" || got.Identity != "" {
		t.Errorf("with an identity: %v, %+v", err, got.Node)
	}
	n.Identity = nil
	r.Host = start.Node{Agent: start.Agent{"gen-join-token": "true", "join-file": "/state/spire-join.json"}}
	if got, err = r.sl(n, job(), run(), "i", leads); err != nil || !cmp.Equal(got.Agent, start.Agent{"gen-join-token": "true"}) || len(r.Host.Agent) != 2 {
		t.Errorf("with an agent of its own: %v, %+v", err, got.Node)
	}
}

// TestProgramsAreHeldToTheirPartOfTheLimits holds that what the policy gives is shared among the host's programs.
func TestProgramsAreHeldToTheirPartOfTheLimits(t *testing.T) {
	r, j := runner(), job()
	r.Profile.Nodes = []taskfile.Node{*node(), *node()}
	r.Terms.Limits = policy.Limits{CPUs: 3, Memory: 4 << 30, Hours: 1}
	got, err := r.sl(&r.Profile.Nodes[0], j, run(), "i", leads)
	if err != nil || got.ML.CPUs != 1.5 || got.ML.Memory != 2<<30 {
		t.Errorf("%v, %+v", err, got.ML)
	}
	for want, limits := range map[string]policy.Limits{"raise cpus": {CPUs: 0.01}, "raise memory": {Memory: 10 << 20}} {
		r.Terms.Limits = limits
		if _, err := r.sl(&r.Profile.Nodes[0], j, run(), "i", leads); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestWhatTheProfileOrTheTaskMayNotSay(t *testing.T) {
	for want, change := range map[string]func(r *Runner, n *taskfile.Node, run *taskfile.RunSwarm){
		"name the file in it as subPath": func(_ *Runner, n *taskfile.Node, _ *taskfile.RunSwarm) {
			n.Identity = []taskfile.Attribute{{Kind: "KEY", MountType: "VOLUME", Src: "certs"}}
		},
		"is not lent to SLs":             func(r *Runner, _ *taskfile.Node, _ *taskfile.RunSwarm) { r.Host.Cert = "/c" },
		"Command: ":                      func(_ *Runner, _ *taskfile.Node, x *taskfile.RunSwarm) { x.Command = "'" },
		"shm-size many":                  func(_ *Runner, n *taskfile.Node, _ *taskfile.RunSwarm) { n.User.ShmSize = "many" },
		"write its absolute path":        func(_ *Runner, _ *taskfile.Node, x *taskfile.RunSwarm) { x.SharedContent[1].Src = "../etc" },
		"a path has MType BIND":          func(_ *Runner, _ *taskfile.Node, x *taskfile.RunSwarm) { x.SharedContent[0].Src = "/etc" },
		"leave colons out":               func(_ *Runner, _ *taskfile.Node, x *taskfile.RunSwarm) { x.SharedContent[0].Tgt = "/a:rw" },
		"policy was not asked about":     func(_ *Runner, _ *taskfile.Node, x *taskfile.RunSwarm) { x.SharedContent[1].Src = "/etc" },
		"mounts \"/srv/a:b\"":            func(_ *Runner, _ *taskfile.Node, x *taskfile.RunSwarm) { x.SharedContent[1].Src = "/srv/odd" },
		"write an absolute path below /": func(_ *Runner, _ *taskfile.Node, x *taskfile.RunSwarm) { x.PrivateContent = "/a/.." },
		"--ml-gpus some":                 func(_ *Runner, n *taskfile.Node, _ *taskfile.RunSwarm) { n.User.GPUs = "some" },
	} {
		r, n, x := runner(), node(), run()
		change(r, n, &x)
		if _, err := r.sl(n, job(), x, "i", leads); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	r := runner()
	r.Profile.Nodes = nil
	if _, err := r.parts(t.Context(), work.Job{}, run(), "i"); err == nil || !strings.Contains(err.Error(), "the profile has no nodes") {
		t.Error(err)
	}
}

// board are tasks.
type board map[string]*task.Task

func (b board) Task(_ context.Context, name string) (*task.Task, error) {
	if b[name] == nil {
		return nil, errors.New("no task " + name)
	}
	return b[name], nil
}

// TestTheTaskBeforeNamesTheImage has what an SN could show in place of a task.
func TestTheTaskBeforeNamesTheImage(t *testing.T) {
	final := func(b board, x *task.Task) *task.Task {
		if before := b[x.Prereq]; before != nil {
			x.PrereqDigest = before.Digest
		}
		x.Digest = x.Sum()
		b[x.Name] = x
		return x
	}
	whole, long := board{}, board{}
	final(whole, &task.Task{Name: "image", Type: task.PullImage, Prereq: task.Root, Outcome: "good:1"})
	content := final(whole, &task.Task{Name: "content", Type: task.MakeSwarmUserContent, Prereq: "image"})
	other := final(board{}, &task.Task{Name: "image", Type: task.PullImage, Prereq: task.Root, Outcome: "bad:1"})
	for i := range maxPrereqs + 1 {
		final(long, &task.Task{Name: fmt.Sprint("content-", i), Type: task.MakeSwarmUserContent, Prereq: fmt.Sprint("content-", i-1)})
	}
	for _, tt := range []struct {
		want string
		b    board
		last *task.Task
	}{
		{"no task image", board{"content": content}, content},
		{"has not the digest", board{"content": content, "image": {Name: "image", Digest: "x"}}, content},
		{"has not the digest", board{"content": content, "image": other}, content},
		{"has not the digest", board{"content": content, "image": other}, other}, // an image where content was meant
		{"more than 16 tasks", long, long[fmt.Sprint("content-", maxPrereqs)]},
	} {
		r := runner()
		r.Tasks = tt.b
		train := &task.Task{Name: "train", Prereq: "content", PrereqDigest: tt.last.Digest}
		if tt.last.Name != "image" {
			train.Prereq = tt.last.Name
		}
		if _, err := r.Image(t.Context(), train); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	if _, err := runner().Image(t.Context(), &task.Task{Name: "train", Prereq: task.Root}); err == nil || !strings.Contains(err.Error(), "as its Prereq") {
		t.Error(err)
	}
}

func TestLabelsAreReadBack(t *testing.T) {
	want := job().Label
	if got, ok := volume.Member(marks(want, 2)); !ok || got != want {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"", "-1", "x", "99999999999"} {
		m := marks(want, 2)
		m["io.swarmd.epoch"] = bad
		if _, ok := volume.Member(m); ok {
			t.Errorf("epoch %q", bad)
		}
	}
}
