package runswarm

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/taskfile"
)

// leads are where paths lead.
var leads = map[string]string{"/srv/model/": "/disk/model"}

// original is a task as the original's examples have it.
func original() taskfile.RunSwarm {
	return taskfile.RunSwarm{
		Entrypoint: "python3", Command: "model/mnist.py", WorkingDir: "/tmp/test", PrivateContent: "/tmp/test/private",
		Env:           []taskfile.Var{{Name: "DATA_DIR", Value: "/tmp/test/private/app-data"}, {Name: "MAX_EPOCHS", Value: "2"}, {Name: "OUT", Value: "/tmp/test/model"}},
		SharedContent: []taskfile.Shared{{Src: "/srv/model/", Tgt: "/tmp/test/model", MountType: "BIND"}},
	}
}

func node() taskfile.Node {
	return taskfile.Node{
		Index: 1, PrivateData: taskfile.Source{Src: "/srv/data", MountType: "BIND"},
		UserEnv: []taskfile.Var{{Name: "MAX_EPOCHS", Value: "9"}, {Name: "ID", Value: "u1"}},
	}
}

// TestPathsOfTheTaskAreThoseOfTheHost holds that a program without a container finds what it would find in one.
func TestPathsOfTheTaskAreThoseOfTheHost(t *testing.T) {
	n := node()
	got, err := resolve(original(), &n, leads)
	want := program{
		python: "python3", model: "/disk/model", file: "mnist.py", data: "/srv/data",
		env: []string{"DATA_DIR=/srv/data/app-data", "MAX_EPOCHS=9", "OUT=/disk/model", "ID=u1"},
	}
	if diff := cmp.Diff(got, want, cmp.AllowUnexported(program{})); err != nil || diff != "" {
		t.Errorf("%v (-got +want)\n%s", err, diff)
	}
	r := original()
	r.SharedContent, r.Entrypoint, r.Command, r.WorkingDir, r.PrivateContent = nil, "/usr/bin/python3 -u", "code/train.py", "/platform/work", "/platform/work"
	got, err = resolve(r, &n, leads)
	if err != nil || got.model != "/srv/data" || got.file != "code/train.py" || got.args != nil || got.data != "/srv/data" || got.python != "python3" {
		t.Errorf("a program in the private data: %v, %+v", err, got)
	}
}

// TestArgumentsAreTheProgramsOwn holds that a program gets its arguments as the task divides them into words, with this host's paths, and that
// none of them is taken for Python's.
func TestArgumentsAreTheProgramsOwn(t *testing.T) {
	n, r := node(), original()
	r.Entrypoint, r.Command = "python3 -u", `-u model/mnist.py --lr 0.1 -u -c '' "a b" $HOME \; --data=/tmp/test/private/x /tmp/test/model/../model/y /tmp/other -o=/etc x=/tmp/test/model`
	got, err := resolve(r, &n, leads)
	want := []string{
		"--lr", "0.1", "-u", "-c", "", "a b", "$HOME", ";", "--data=/srv/data/x", "/disk/model/y", "/tmp/other", "-o=/etc", "x=/tmp/test/model",
	}
	if diff := cmp.Diff(got.args, want); err != nil || got.file != "mnist.py" || diff != "" {
		t.Errorf("%v, %s (-got +want)\n%s", err, got.file, diff)
	}
	h := Host{Profile: &taskfile.Profile{Nodes: []taskfile.Node{n}}, Node: start.Node{Host: "h", Identity: "embedded"}}
	x, err := h.process(&n, r, leads, "/state")
	var again start.SL
	if err == nil {
		given := start.Texts(&x.sl)
		err = start.Read(&again, func(name string) []string { return given[name] })
	}
	if diff := cmp.Diff([]string(again.Args), want); err != nil || diff != "" {
		t.Errorf("what the SL reads: %v (-got +want)\n%s", err, diff)
	}
}

func TestWhatNoProcessCanDoIsRefused(t *testing.T) {
	for want, change := range map[string]func(*taskfile.RunSwarm, *taskfile.Node){
		"a process runs Python programs only":            func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.Entrypoint = "bash -c" },
		"the task runs /srv/shared/pythonish":            func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.Entrypoint = "/srv/shared/pythonish" },
		"the option -c":                                  func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.Entrypoint = "python3 -c" },
		"1025 arguments, at most":                        func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.Command += strings.Repeat(" a", 1025) },
		"16385 bytes, at most":                           func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.Command += " " + strings.Repeat("a", 16385) },
		"holds a NUL":                                    func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.Command += " a\x00" },
		"Python without a program":                       func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.Command = "-u" },
		"the task runs nothing":                          func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.Command, r.Entrypoint = "", "" },
		"a quote is not closed":                          func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.Command = "'" },
		"/opt/x.py lies in nothing that the task mounts": func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.Command = "/opt/x.py" },
		"/tmp/x.py lies in nothing":                      func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.Command = "../x.py" },
		"SharedContent is in the volume v": func(r *taskfile.RunSwarm, _ *taskfile.Node) {
			r.SharedContent[0] = taskfile.Shared{Src: "v", Tgt: "/v", MountType: "VOLUME"}
		},
		"SharedContent names the directory ./x": func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.SharedContent[0].Src = "./x" },
		"SharedContent is mounted at /: write":  func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.SharedContent[0].Tgt = "/" },
		"policy was not asked about":            func(r *taskfile.RunSwarm, _ *taskfile.Node) { r.SharedContent[0].Src = "/srv/other" },
		"PrivateContent is in the volume w": func(_ *taskfile.RunSwarm, n *taskfile.Node) {
			n.PrivateData = taskfile.Source{Src: "w", MountType: "Volume"}
		},
	} {
		r, n := original(), node()
		change(&r, &n)
		if p, err := resolve(r, &n, leads); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %+v; want %q", err, p, want)
		}
	}
}

// TestTheProfileMakesTheSL holds what an SL is started with: the profile's words, and where it has none the SWOP's.
func TestTheProfileMakesTheSL(t *testing.T) {
	n := node()
	h := Host{
		Profile: &taskfile.Profile{Nodes: []taskfile.Node{n}, Env: []taskfile.Var{{Name: "A", Value: "1"}, {Name: "B", Value: "1"}}}, Name: "swop-1",
		Node: start.Node{Host: "10.0.0.1", Identity: "embedded=/run/a", SwarmID: "s"}, SNs: []string{"sn:1"}, SessionTimeout: start.Limit(time.Minute),
	}
	n.SLEnv = []taskfile.Var{{Name: "B", Value: "2"}}
	x, err := h.process(&n, original(), leads, "/state/sl/1")
	if err != nil {
		t.Fatal(err)
	}
	want := start.SL{
		Node: start.Node{Name: "swop-1-sl-1", Host: "10.0.0.1", Identity: "embedded=/run/a", SwarmID: "s", StateDir: "/state/sl/1"}, SNs: []string{"sn:1"}, FSPort: 30306, SessionTimeout: start.Limit(time.Minute),
		ML: start.ML{Runtime: "process"}, DataDir: "/srv/data", ModelDir: "/disk/model", Program: "mnist.py", Python: "python3", LogsTo: []string{"none"},
	}
	want.Container.Env = x.sl.Container.Env
	if diff := cmp.Diff(x.sl, want); diff != "" {
		t.Errorf("(-got +want)\n%s", diff)
	}
	if diff := cmp.Diff(x.env, []string{"A=1", "B=2"}); diff != "" {
		t.Errorf("the SL's environment (-got +want)\n%s", diff)
	}
	n.Identity = []taskfile.Attribute{
		{Kind: "KEY", MountType: "BIND", Src: "/c/k.pem"}, {Kind: "CERT", MountType: "BIND", Src: "/c", SubPath: "c.pem"}, {Kind: "CAPATH", MountType: "BIND", Src: "/c/ca"},
	}
	n.SLHostIP, n.SLPort, n.SLFSService, n.User.GPUs = "10.0.0.9", 16000, "fs.example:16000", "device=1"
	if x, err = h.process(&n, original(), leads, "/s"); err != nil {
		t.Fatal(err)
	}
	if x.sl.Key != "/c/k.pem" || x.sl.Cert != "/c/c.pem" || x.sl.CAPath != "/c/ca" || x.sl.Identity != "" || x.sl.Host != "fs.example" || x.sl.FSPort != 16000 || x.sl.GPUs != "1" {
		t.Errorf("by the profile: %+v", x.sl)
	}
	n.Identity[0].MountType = "VOLUME"
	if _, err := h.process(&n, original(), leads, "/s"); err == nil || !strings.Contains(err.Error(), "is in volume /c/k.pem") {
		t.Errorf("a key in a volume: %v", err)
	}
	n.Identity, h.Node.Cert = nil, "/c/swop.pem"
	if _, err := h.process(&n, original(), leads, "/s"); err == nil || !strings.Contains(err.Error(), "a SWOP's certificate is not lent to SLs") {
		t.Errorf("an SL without an identity: %v", err)
	}
}
