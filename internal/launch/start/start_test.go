package start_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/start"
)

// none is an environment without variables.
var none = start.Env{Getenv: func(string) string { return "" }, Version: "1"}

// program makes a model directory with a program.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.py"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func sl(model string) start.SL {
	return start.SL{
		Node: start.Node{Host: "h", Agent: start.Agent{"serverAddress": "spire", "joinToken": "hush", "insecureBootstrap": "true"}},
		SNs:  []string{"sn1"}, ModelDir: model, Program: "train.py",
		ML: start.ML{Memory: 8 << 30, Cmd: start.Words{"a b", "c"}, User: "7:8", Env: []string{"K=hush"}},
	}
}

// TestComponentFromWithinAContainer holds that a SWOP in a container starts SLs by paths of the host, which it does not see, and still keeps
// an SL's identity from its program.
func TestComponentFromWithinAContainer(t *testing.T) {
	within := start.Env{Getenv: func(k string) string {
		if k == start.InContainer {
			return "1"
		}
		return ""
	}}
	o := start.SL{
		Node: start.Node{Host: "h", Certificates: start.Certificates{Cert: "/far/c.pem", Key: "/far/k.pem"}}, SNs: []string{"sn1"},
		ML: start.ML{Cmd: start.Words{"run"}, Volumes: []string{"/far/data:/data"}},
	}
	got, err := o.Component(within)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--cert=/far/c.pem", "--key=/far/k.pem", "--ml-v=/far/data:/data"} {
		if !slices.Contains(got.Args, want) {
			t.Errorf("no %s in %q", want, got.Args)
		}
	}
	if !slices.Equal(got.Files, []string{"/far/c.pem", "/far/k.pem"}) {
		t.Errorf("files %q", got.Files)
	}
	if _, err := o.Component(none); err == nil || !strings.Contains(err.Error(), "/far/c.pem: bad file: it does not exist") {
		t.Errorf("on the host: %v", err)
	}
	o.Certificates, o.Identity = start.Certificates{}, "embedded=/far/ca"
	if got, err = o.Component(within); err != nil || got.SocketPath != "/far/ca/sl.sock" {
		t.Errorf("%v, %+v", err, got)
	}
	o.ML.Volumes = []string{"/far:/data"}
	if _, err := o.Component(within); err == nil || !strings.Contains(err.Error(), "could speak for the node") {
		t.Errorf("an identity within reach: %v", err)
	}
}

// TestComponentOfTypedOptions holds what a caller without a command line gets: the container that the same options on one make.
func TestComponentOfTypedOptions(t *testing.T) {
	model := program(t)
	o := sl(model)
	got, err := o.Component(none)
	if err != nil {
		t.Fatal(err)
	}
	got.Agent = nil
	want := component.Spec{
		Role: "sl", Node: "sl-h-30305", Platform: "TF", Scope: "default", Version: "1", HostIP: "h",
		Args: []string{
			"run-sl", "--runtime=process", "--host-ip=h", "--insecureBootstrap=true", "--serverAddress=spire", "--ml-cmd='a b' c", "--ml-e=K", "--ml-memory=8g",
			"--sn-ip=sn1", "--bridge-dir=/dev/shm/swarmd/sl-h-30305", "--ml-runtime=docker", "--ml-user=7:8", "--model-dir=" + model, "--model-program=train.py",
		},
		Vars:  []string{"SWARM_IN_CONTAINER=1", "SWARM_SPIRE_JOIN_TOKEN=hush", "SWARM_ML_E_K=hush"},
		Ports: []component.Port{{Number: 30305}}, Mounts: []component.Mount{{Source: model, Target: "/platform/swarmml/model"}},
		BridgeDir: "/dev/shm/swarmd/sl-h-30305", Spill: true, EngineSocket: true,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want)\n%s", diff)
	}
	ml, err := o.MLContainer(none)
	if err != nil {
		t.Fatal(err)
	}
	if o.Args, o.ML.Cmd = (start.Words{"a b", "--lr"}), nil; o.Check(start.Docker) != nil {
		t.Errorf("arguments: %v", o.Check(start.Docker))
	}
	if with, err := o.MLContainer(none); err != nil || !slices.Equal(with.Args, o.Args) {
		t.Errorf("the program's arguments: %v, %q", err, with.Args)
	}
	if ml.Node != "sl-h-30305" || ml.Memory != 8<<30 || ml.User != "7:8" || ml.ModelDir != model || !slices.Equal(ml.Cmd, []string{"a b", "c"}) {
		t.Errorf("the program's container: %+v", ml)
	}
}

// TestPromptOfTypedOptions holds what a caller without a command line gets of the prompt.
func TestPromptOfTypedOptions(t *testing.T) {
	usr := t.TempDir()
	key := filepath.Join(usr, "k.pem")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := start.SWCI{
		Name: "prompt", UsrDir: usr, Script: "init", SNs: []string{"sn1:1"}, Certificates: start.Certificates{Key: key},
		Container: component.Options{Network: "n"},
	}
	got, err := o.Component(none)
	if err != nil {
		t.Fatal(err)
	}
	want := component.Spec{
		Role: "swci", Scope: "default", Version: "1", Stateless: true, Program: []string{"swarmctl"},
		Args:    []string{"run-swci", "--runtime=process", "--usr-dir=/platform/swci/usr", "--init-script-name=init", "--sn=sn1:1", "--key=" + key},
		Vars:    []string{"SWARM_IN_CONTAINER=1", "XDG_STATE_HOME=/tmp/state", "HOME=/tmp", "TERM=xterm"},
		Files:   []string{key},
		Mounts:  []component.Mount{{Source: usr, Target: "/platform/swci/usr"}, {Source: usr, Target: "/platform/swarm/usr"}},
		Options: component.Options{Name: "prompt", Network: "n", Remove: true, Interactive: true},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want)\n%s", diff)
	}
	o.SocketPath = filepath.Join(usr, "none.sock")
	if _, err := o.Component(none); err == nil || !strings.Contains(err.Error(), "bad socket: it does not exist") {
		t.Errorf("a socket that is not there: %v", err)
	}
}

// TestComponentIsChecked holds that such a caller meets the checks of paths and of isolation, too.
func TestComponentIsChecked(t *testing.T) {
	model := program(t)
	for want, change := range map[string]func(*start.SL){
		"--model-dir: /none: bad path":           func(o *start.SL) { o.ModelDir = "/none" },
		"leads out of the model directory":       func(o *start.SL) { o.Program = "../train.py" },
		"--model-program not specified":          func(o *start.SL) { o.Program, o.ML.Cmd = "", nil },
		"could speak for the node":               func(o *start.SL) { o.StateDir = filepath.Join(model, "state") },
		"--ml-memory 1m: engines take 6m":        func(o *start.SL) { o.ML.Memory = 1 << 20 },
		"--gpu 0;1: want all":                    func(o *start.SL) { o.GPUs = "0;1" },
		"--ml-runtime podman: want":              func(o *start.SL) { o.ML.Runtime = "podman" },
		"--env A: want K=V":                      func(o *start.SL) { o.Container.Env = []string{"A"} },
		"--host-ip not specified":                func(o *start.SL) { o.Host = "" },
		"--sn-ip not specified":                  func(o *start.SL) { o.SNs = nil },
		"--name: ":                               func(o *start.SL) { o.Name = "a/b" },
		"labels that begin with io.swarmd.":      func(o *start.SL) { o.Container.Labels = []string{"io.swarmd.role=x"} },
		"no identity: give":                      func(o *start.SL) { o.Agent = nil },
		"--cert: none.pem: bad file":             func(o *start.SL) { o.Cert = "none.pem" },
		"--identity embedded needs none: give":   func(o *start.SL) { o.Identity = "embedded" },
		"--socket-path names one that runs":      func(o *start.SL) { o.SocketPath = "/s" },
		"--ml-name x/y: no name for a container": func(o *start.SL) { o.ML.Name = "x/y" },
		"replace --model-program: write the":     func(o *start.SL) { o.Args = start.Words{"a"} },
		"--attach starts no program: give":       func(o *start.SL) { o.Args, o.Attach = start.Words{"a"}, true },
		"-args: 1025 arguments, at most 1024":    func(o *start.SL) { o.Args, o.ML.Cmd = make(start.Words, 1025), nil },
	} {
		o := sl(model)
		change(&o)
		if _, err := o.Component(none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// swop is a SWOP with a profile in a directory of its own.
func swop(t *testing.T) (o start.SWOP, usr string) {
	t.Helper()
	usr = t.TempDir()
	for _, name := range []string{"profile.yaml", "policy.yaml", "k.pem"} {
		if err := os.WriteFile(filepath.Join(usr, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return start.SWOP{
		Node:   start.Node{Name: "swop-1", Host: "h", Certificates: start.Certificates{Cert: filepath.Join(usr, "k.pem")}},
		UsrDir: usr, Profile: "profile.yaml", SNs: []string{"sn1"}, Keep: true,
	}, usr
}

// TestOperatorOfTypedOptions holds what the container of a SWOP gets: the user's directory, the engine, and nothing that only the
// launcher has to know.
func TestOperatorOfTypedOptions(t *testing.T) {
	o, usr := swop(t)
	key, policy := filepath.Join(usr, "k.pem"), filepath.Join(usr, "policy.yaml")
	o.Policy, o.UID, o.EngineGroup = policy, "1000", "999"
	got, err := o.Component(none)
	if err != nil {
		t.Fatal(err)
	}
	want := component.Spec{
		Role: "swop", Node: "swop-1", Scope: "default", Version: "1", HostIP: "h", Options: component.Options{Name: "swop-1", User: "1000:999"},
		Args: []string{
			"run-swop", "--runtime=process", "--name=swop-1", "--host-ip=h", "--cert=" + key, "--profile-file-name=profile.yaml", "--sn-ip=sn1",
			"--keep-containers=true", "--ml-runtime=docker", "--usr-dir=/platform/swarm/usr", "--policy=" + policy,
		},
		Vars: []string{"SWARM_IN_CONTAINER=1", "SWARM_IMAGE=swarmd:latest", "SWARM_HOST_USR_DIR=" + usr, "SWARM_HOST_OWN=/var/run/docker.sock"}, Files: []string{key, policy}, EngineSocket: true,
		Mounts: []component.Mount{{Source: usr, Target: "/platform/swarm/usr"}}, Ports: []component.Port{{Number: 30308}},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want)\n%s", diff)
	}
	o.Policy, o.Container.Image = start.PolicyAsk, "h.example/swarmd:3"
	if got, err = o.Component(none); err != nil || !slices.Contains(got.Args, "--policy=ask") || slices.Contains(got.Files, policy) || !slices.Contains(got.Vars, "SWARM_IMAGE=h.example/swarmd:3") {
		t.Errorf("a SWOP that asks, of another image: %v, %q, %q, %q", err, got.Args, got.Files, got.Vars)
	}
}

// TestOperatorsFileServer holds its port: as it is named, none, or no port at all.
func TestOperatorsFileServer(t *testing.T) {
	for given, want := range map[string]struct {
		ports []component.Port
		wrong string
	}{
		"":      {ports: []component.Port{{Number: 30308}}},
		"31308": {ports: []component.Port{{Number: 31308}}},
		"0":     {},
		"-1":    {wrong: "--swop-fs-port -1: want a port from 1 to 65535, or 0 for none"},
		"65536": {wrong: "want a port"},
		"a":     {wrong: "want a port"},
	} {
		o, _ := swop(t)
		err := start.Read(&o, func(name string) []string {
			if name == "swop-fs-port" && given != "" {
				return []string{given}
			}
			return nil
		})
		if (err != nil) != (want.wrong != "") || err != nil && !strings.Contains(err.Error(), want.wrong) {
			t.Errorf("%q: %v", given, err)
		}
		if err != nil {
			continue
		}
		got, err := o.Component(none)
		told := slices.Contains(got.Args, "--swop-fs-port="+given)
		if err != nil || !slices.Equal(got.Ports, want.ports) || told != (given != "") {
			t.Errorf("%q: %v, %v, %q", given, err, got.Ports, got.Args)
		}
	}
}

func TestOperatorIsChecked(t *testing.T) {
	for want, change := range map[string]func(*start.SWOP){
		"--usr-dir not specified; name the directory":                 func(o *start.SWOP) { o.UsrDir = "" },
		"--profile-file-name not specified; name the profile":         func(o *start.SWOP) { o.Profile = "" },
		"--profile-file-name: ../p: bad file: it lies outside":        func(o *start.SWOP) { o.Profile = "../p" },
		"/none: bad file: it does not exist":                          func(o *start.SWOP) { o.Profile = "none" },
		"--usr-dir: /none: bad directory":                             func(o *start.SWOP) { o.UsrDir = "/none" },
		"--policy: /none: bad file":                                   func(o *start.SWOP) { o.Policy = "/none" },
		"--docker-socket-file: /none: bad file":                       func(o *start.SWOP) { o.EngineSocket = "/none" },
		"--docker-socket-file: /: bad file: it is no socket":          func(o *start.SWOP) { o.EngineSocket = "/" },
		"--ml-runtime process is for a SWOP that is a process":        func(o *start.SWOP) { o.MLRuntime = "process" },
		"--swop-uid 7: the group of the engine's socket is not known": func(o *start.SWOP) { o.UID = "7" },
	} {
		o, _ := swop(t)
		change(&o)
		if _, err := o.Component(start.Env{Getenv: func(string) string { return "tcp://engine:1" }}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestTheProfileSaysWhereSNsAre holds that it wins over the options of the command.
func TestTheProfileSaysWhereSNsAre(t *testing.T) {
	for _, tt := range []struct {
		host, service string
		port          start.Port
		sns           []string
		api           start.Port
	}{
		{sns: []string{"sn1", "api.sn2:443"}, api: 1},
		{port: 2, sns: []string{"sn1", "api.sn2:443"}, api: 2},
		{host: "sn3", sns: []string{"sn3"}, api: 1},
		{host: "sn3", port: 4, sns: []string{"sn3"}, api: 4},
		{service: "api.sn3", sns: []string{"api.sn3:443"}, api: 1},
		{host: "sn3", service: "api.sn3:5", sns: []string{"sn3", "api.sn3:5"}, api: 1},
	} {
		o := start.SWOP{SNs: []string{"sn1"}, SNService: "api.sn2", APIPort: 1}
		if err := o.Settle(); err != nil || o.Host == "" {
			t.Fatal(err, o.Host)
		}
		if err := o.Locate(tt.host, tt.service, tt.port); err != nil || !slices.Equal(o.SNs, tt.sns) || o.APIPort != tt.api || o.CheckSNs() != nil {
			t.Errorf("%+v: %v, %q, port %d", tt, err, o.SNs, o.APIPort)
		}
	}
	o := start.SWOP{}
	if err := o.Locate("", "a b", 0); err == nil || o.CheckSNs() == nil {
		t.Errorf("a bad service: %v", err)
	}
}

// TestNoFrameworkIsMissedThatNobodyNamed: a command of the user's own has what it needs, unless the platform says otherwise.
func TestNoFrameworkIsMissedThatNobodyNamed(t *testing.T) {
	within := start.Env{Getenv: func(k string) string { return map[string]string{start.InContainer: "1"}[k] }}
	for platform, want := range map[string]bool{"": true, "PYT": false} {
		o := start.SL{Platform: platform, ML: start.ML{Image: "i", User: "1:1", Entrypoint: start.Words{"python3"}}}
		if ml, err := o.MLContainer(within); err != nil || ml.AnyFramework != want {
			t.Errorf("platform %q: %v, %+v", platform, err, ml)
		}
	}
	o := start.SL{Program: "train.py", ML: start.ML{Image: "i", User: "1:1"}}
	if ml, err := o.MLContainer(within); err != nil || ml.AnyFramework {
		t.Errorf("the platform of swarmd's own command: %v, %+v", err, ml)
	}
}
