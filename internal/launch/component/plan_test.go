package component_test

import (
	"context"
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-connections/nat"
	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

func spec(change func(*component.Spec)) component.Spec {
	s := component.Spec{
		Options: component.Options{Name: "sn1", Detach: true}, Role: naming.RoleSN, Node: "sn1", Scope: "s", Version: "v1",
		Args: []string{"run-sn"}, HostIP: "10.0.0.1", Ports: []component.Port{{Number: 30303}, {Number: 30304}},
	}
	if change != nil {
		change(&s)
	}
	return s
}

var paper = component.FakeHost{
	UID: 1000, GID: 100, ImageUser: "10001:10001", Local: "10.0.0.1",
	Env: map[string]string{"MINE": "7"},
	Files: map[string]component.FakeFile{
		"/pki/ca.pem":       {0o644, 0, 0},
		"/pki/key.pem":      {0o600, 1000, 100},
		"/pki/root-key.pem": {0o600, 0, 0},
		"/pki/group.pem":    {0o640, 0, 33},
		"/pki/ca":           {fs.ModeDir | 0o755, 0, 0},
		"/pki/ca/one.pem":   {0o600, 1000, 100},
		"/srv/state":        {fs.ModeDir | 0o700, 1000, 100},
		"/model":            {fs.ModeDir | 0o755, 1000, 100},
		"/data":             {fs.ModeDir | 0o755, 1000, 100},
		"/run/spire/a.sock": {fs.ModeSocket | 0o777, 0, 0},
	},
}

func TestPlan(t *testing.T) {
	p, err := component.Build(spec(nil), paper)
	if err != nil {
		t.Fatal(err)
	}
	want := component.Plan{
		User: "10001:10001", Volumes: []string{"swarmd-s-sn1"},
		Config: &container.Config{
			Hostname: "sn1", Image: engine.ImageSwarmd, Entrypoint: []string{"swarmd"}, Cmd: []string{"run-sn"}, WorkingDir: "/",
			Env: []string{"SWARM_SCOPE=s", "HOME=/var/lib/swarmd/sn1", "XDG_STATE_HOME=/var/lib", "SWARM_STATE_DIR=/var/lib/swarmd/sn1"},
			Labels: map[string]string{
				engine.LabelRole: "sn", engine.LabelScope: "s", engine.LabelNode: "sn1", engine.LabelSwarmd: "v1",
			},
			ExposedPorts: nat.PortSet{"30303/tcp": {}, "30304/tcp": {}}, StopTimeout: new(30),
		},
		Host: &container.HostConfig{
			CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}, ReadonlyRootfs: true,
			Tmpfs:        map[string]string{"/tmp": "rw,nosuid,nodev,mode=1777", "/run": "rw,nosuid,nodev"},
			Resources:    container.Resources{PidsLimit: new(int64(4096))},
			PortBindings: nat.PortMap{"30303/tcp": {{HostPort: "30303"}}, "30304/tcp": {{HostPort: "30304"}}},
			Mounts: []mount.Mount{{
				Type: mount.TypeVolume, Source: "swarmd-s-sn1", Target: "/var/lib/swarmd", VolumeOptions: &mount.VolumeOptions{NoCopy: true},
			}},
		},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

func TestPlanOptions(t *testing.T) {
	has := slices.Contains[[]string]
	for name, tc := range map[string]struct {
		change func(*component.Spec)
		ok     func(component.Plan) bool
	}{
		"names": {func(s *component.Spec) { s.Hostname = "h" }, func(p component.Plan) bool { return p.Config.Hostname == "h" }},
		"host network": {func(s *component.Spec) { s.Network = "host" }, func(p component.Plan) bool {
			return p.Host.NetworkMode == "host" && len(p.Host.PortBindings) == 0 && p.Config.Hostname == ""
		}},
		"no network":  {func(s *component.Spec) { s.Network = "none" }, func(p component.Plan) bool { return len(p.Host.PortBindings) == 0 }},
		"own network": {func(s *component.Spec) { s.Network, s.HostIP = "net", "sn1" }, func(p component.Plan) bool { return p.Host.NetworkMode == "net" && len(p.Host.PortBindings) == 0 }},
		"environment": {func(s *component.Spec) {
			s.Vars, s.Env = []string{"A=1", "B=2"}, []string{"B=3", "MINE", "NOBODYS", "X=a=b,c"}
		}, func(p component.Plan) bool {
			return has(p.Config.Env, "A=1") && has(p.Config.Env, "B=3") && !has(p.Config.Env, "B=2") && has(p.Config.Env, "MINE=7") &&
				has(p.Config.Env, "X=a=b,c") && !strings.Contains(strings.Join(p.Config.Env, " "), "NOBODYS")
		}},
		"labels":    {func(s *component.Spec) { s.Labels = []string{"a=b", "c"} }, func(p component.Plan) bool { return p.Config.Labels["a"] == "b" && p.Config.Labels["c"] == "" }},
		"user":      {func(s *component.Spec) { s.User = "5:6" }, func(p component.Plan) bool { return p.Config.User == "5:6" && p.User == "5:6" }},
		"user name": {func(s *component.Spec) { s.User = "bob" }, func(p component.Plan) bool { return p.Config.User == "bob" && p.Host.Mounts[0].VolumeOptions == nil }},
		"workdir":   {func(s *component.Spec) { s.WorkDir = "/x" }, func(p component.Plan) bool { return p.Config.WorkingDir == "/x" }},
		"rm":        {func(s *component.Spec) { s.Remove = true }, func(p component.Plan) bool { return p.Host.AutoRemove }},
		"network options": {func(s *component.Spec) {
			s.DNS, s.SecurityOpt = []string{"10.0.0.53"}, []string{"label=type:container_runtime_t"}
		}, func(p component.Plan) bool {
			return slices.Equal(p.Host.DNS, []string{"10.0.0.53"}) && slices.Equal(p.Host.SecurityOpt, []string{"no-new-privileges", "label=type:container_runtime_t"})
		}},
		"restart": {func(s *component.Spec) { s.Restart = "on-failure:3" }, func(p component.Plan) bool {
			return p.Host.RestartPolicy.Name == "on-failure" && p.Host.RestartPolicy.MaximumRetryCount == 3
		}},
		"image": {func(s *component.Spec) { s.Image = "mine" }, func(p component.Plan) bool { return p.Config.Image == "mine" }},
		"attached": {func(s *component.Spec) { s.Detach, s.Interactive, s.TTY = false, true, true }, func(p component.Plan) bool {
			return p.Config.Tty && p.Config.OpenStdin && p.Config.StdinOnce && p.Config.AttachStdin && p.Config.AttachStdout
		}},
		"volumes": {func(s *component.Spec) { s.Volumes = []string{"/data:/d:ro", "named:/n", "/model:/m/"} }, func(p component.Plan) bool {
			return cmp.Diff(p.Host.Mounts[1:], []mount.Mount{
				{Type: mount.TypeBind, Source: "/data", Target: "/d", ReadOnly: true},
				{Type: mount.TypeVolume, Source: "named", Target: "/n"},
				{Type: mount.TypeBind, Source: "/model", Target: "/m"},
			}) == ""
		}},
		"explicit port wins": {func(s *component.Spec) { s.Publish = []string{"31303:30303"} }, func(p component.Plan) bool {
			return cmp.Diff(p.Host.PortBindings, nat.PortMap{"30303/tcp": {{HostPort: "31303"}}, "30304/tcp": {{HostPort: "30304"}}}) == ""
		}},
		"explicit port takes the number": {func(s *component.Spec) { s.Publish = []string{"127.0.0.1:30304:80", "53:53/udp"} }, func(p component.Plan) bool {
			return cmp.Diff(p.Host.PortBindings, nat.PortMap{
				"80/tcp": {{HostIP: "127.0.0.1", HostPort: "30304"}}, "53/udp": {{HostPort: "53"}}, "30303/tcp": {{HostPort: "30303"}},
			}) == ""
		}},
		"elsewhere":         {func(s *component.Spec) { s.HostIP = "10.0.0.9" }, func(p component.Plan) bool { return len(p.Host.PortBindings) == 0 }},
		"public files":      {func(s *component.Spec) { s.Files = []string{"/pki/ca.pem"} }, func(p component.Plan) bool { return p.Config.User == "" && p.Host.Mounts[1].ReadOnly }},
		"caller's key":      {func(s *component.Spec) { s.Files = []string{"/pki/key.pem", "/pki/ca.pem"} }, func(p component.Plan) bool { return p.Config.User == "1000:100" && p.User == "1000:100" }},
		"key in a dir":      {func(s *component.Spec) { s.Files = []string{"/pki/ca"} }, func(p component.Plan) bool { return p.Config.User == "1000:100" }},
		"group's file":      {func(s *component.Spec) { s.Files = []string{"/pki/group.pem"} }, func(p component.Plan) bool { return p.Config.User == "" && has(p.Host.GroupAdd, "33") }},
		"-u before the key": {func(s *component.Spec) { s.Files, s.User = []string{"/pki/key.pem"}, "0" }, func(p component.Plan) bool { return p.Config.User == "0" }},
		"state on the host": {func(s *component.Spec) { s.StateDir = "/srv/state" }, func(p component.Plan) bool {
			return p.Config.User == "1000:100" && len(p.Volumes) == 0 && p.Host.Mounts[0].Target == "/platform/swarm/state" && has(p.Config.Env, "SWARM_STATE_DIR=/platform/swarm/state")
		}},
		"stateless": {func(s *component.Spec) { s.Stateless, s.Node = true, "" }, func(p component.Plan) bool { return len(p.Volumes)+len(p.Host.Mounts) == 0 }},
		"host agent": {func(s *component.Spec) { s.SocketPath = "unix:///run/spire/a.sock" }, func(p component.Plan) bool {
			return p.Host.Mounts[1].Source == "/run/spire" && has(p.Config.Env, "SPIFFE_ENDPOINT_SOCKET=unix:///run/spire/a.sock")
		}},
		"sl with its program inside": {func(s *component.Spec) { s.Role, s.BridgeDir = naming.RoleSL, "/dev/shm/swarmd/sn1" }, func(p component.Plan) bool {
			return len(p.Host.Binds) == 0 && p.Host.ShmSize == 1<<30 && len(p.Host.CapAdd) == 0
		}},
		"sl": {func(s *component.Spec) {
			s.Role, s.EngineSocket, s.BridgeDir, s.Spill, s.Platform = naming.RoleSL, true, "/dev/shm/swarmd/sn1", true, "PYT"
			s.Mounts = []component.Mount{{Source: "/model", Target: engine.ModelDir}}
		}, func(p component.Plan) bool {
			return p.User == "0:0" && slices.Equal(p.Host.CapAdd, []string{"CHOWN", "DAC_OVERRIDE"}) &&
				slices.Equal(p.Host.Binds, []string{"/dev/shm/swarmd:/dev/shm/swarmd"}) && slices.Equal(p.Volumes, []string{"swarmd-s-sn1", "swarmd-s-sn1-spill"}) &&
				slices.ContainsFunc(p.Host.Mounts, func(m mount.Mount) bool { return m.Source == "/var/run/docker.sock" && m.Target == m.Source }) &&
				p.Config.Labels[engine.LabelPlatform] == "PYT"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := component.Build(spec(tc.change), paper)
			if err != nil {
				t.Fatal(err)
			}
			if !tc.ok(p) {
				t.Errorf("got\n%+v\n%+v", p.Config, p.Host)
			}
		})
	}
}

func TestPlanEngines(t *testing.T) {
	for where, want := range map[string]struct {
		mounts []mount.Mount
		env    string
	}{
		"unix:///run/podman/podman.sock": {[]mount.Mount{{Type: mount.TypeBind, Source: "/run/podman/podman.sock", Target: "/var/run/docker.sock"}}, "DOCKER_HOST=unix:///var/run/docker.sock"},
		"tcp://10.0.0.1:2376":            {[]mount.Mount{{Type: mount.TypeBind, Source: "/pki/ca", Target: "/pki/ca", ReadOnly: true}}, "DOCKER_HOST=tcp://10.0.0.1:2376"},
	} {
		h := paper
		h.Env = map[string]string{"DOCKER_HOST": where, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/pki/ca"}
		p, err := component.Build(spec(func(s *component.Spec) { s.EngineSocket = true }), h)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.mounts, p.Host.Mounts[1:]); diff != "" || !slices.Contains(p.Config.Env, want.env) {
			t.Errorf("%s: environment %q, mounts (-want +got):\n%s", where, p.Config.Env, diff)
		}
	}
}

// TestPlanOfALauncherInAContainer holds that a SWOP gives its SLs the engine's socket by its place on the host.
func TestPlanOfALauncherInAContainer(t *testing.T) {
	h := paper
	h.Env = map[string]string{"DOCKER_HOST": "unix:///run/podman/podman.sock"}
	p, err := component.Build(spec(func(s *component.Spec) { s.EngineSocket = true }), h)
	if err != nil {
		t.Fatal(err)
	}
	h.Env = map[string]string{}
	for _, kv := range p.Config.Env {
		k, v, _ := strings.Cut(kv, "=")
		h.Env[k] = v
	}
	inner, err := component.Build(spec(func(s *component.Spec) { s.EngineSocket = true }), h)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Host.Mounts, inner.Host.Mounts); diff != "" {
		t.Errorf("(-outer +inner)\n%s", diff)
	}
}

func TestPlanRefusals(t *testing.T) {
	for want, change := range map[string]func(*component.Spec){
		`^-v /none:/x: bad mount: /none: no such file`:        func(s *component.Spec) { s.Volumes = []string{"/none:/x"} },
		`^-v \./none:/x: bad mount: `:                         func(s *component.Spec) { s.Volumes = []string{"./none:/x"} },
		`^-v /data: bad mount: want HOST-PATH`:                func(s *component.Spec) { s.Volumes = []string{"/data"} },
		`^-v /data:x: bad mount: x is no absolute path`:       func(s *component.Spec) { s.Volumes = []string{"/data:x"} },
		`^-v /data:/x:rx: bad mount: want :ro`:                func(s *component.Spec) { s.Volumes = []string{"/data:/x:rx"} },
		`^bad mount: both /data and /model are to be mounted`: func(s *component.Spec) { s.Volumes = []string{"/data:/x", "/model:/x"} },
		`^-p nonsense: `:                                          func(s *component.Spec) { s.Publish = []string{"nonsense"} },
		`^-l =x: want KEY=VALUE`:                                  func(s *component.Spec) { s.Labels = []string{"=x"} },
		`labels io\.swarmd\.\* are ours`:                          func(s *component.Spec) { s.Labels = []string{"io.swarmd.role=ml"} },
		`^--ip 10.0.0.9: only a network that you have made`:       func(s *component.Spec) { s.IP = "10.0.0.9" },
		`^--ip ten: want an IP address`:                           func(s *component.Spec) { s.IP, s.Network = "ten", "lab" },
		`^--security-opt seccomp=unconfined: a component's`:       func(s *component.Spec) { s.SecurityOpt = []string{"seccomp=unconfined"} },
		`^--security-opt apparmor:unconfined: a component`:        func(s *component.Spec) { s.SecurityOpt = []string{"apparmor:unconfined"} },
		`^--security-opt label=disable: a component's`:            func(s *component.Spec) { s.SecurityOpt = []string{"label=disable"} },
		`^--security-opt label:type:spc_t: a component`:           func(s *component.Spec) { s.SecurityOpt = []string{"label:type:spc_t"} },
		`^--security-opt seccomp=\{"def`:                          func(s *component.Spec) { s.SecurityOpt = []string{`seccomp={"defaultAction":"SCMP_ACT_ALLOW"}`} },
		`^--security-opt no-new-privileges=false: a comp`:         func(s *component.Spec) { s.SecurityOpt = []string{"no-new-privileges=false"} },
		`^--security-opt systempaths=unconfined: a compo`:         func(s *component.Spec) { s.SecurityOpt = []string{"systempaths=unconfined"} },
		`^--restart sometimes: want no, always`:                   func(s *component.Spec) { s.Restart = "sometimes" },
		`^--restart always:3: want`:                               func(s *component.Spec) { s.Restart = "always:3" },
		`^--rm and --restart always: `:                            func(s *component.Spec) { s.Remove, s.Restart = true, "always" },
		`/pki/none: bad file: no such file`:                       func(s *component.Spec) { s.Files = []string{"/pki/none"} },
		`/pki/key.pem belongs to user 1000, /pki/root-key.pem to`: func(s *component.Spec) { s.Files = []string{"/pki/key.pem", "/pki/root-key.pem"} },
		`^--socket-path: /none: no such file.*agent running`:      func(s *component.Spec) { s.SocketPath = "/none" },
		`^bad path: /none: no such file`:                          func(s *component.Spec) { s.Mounts = []component.Mount{{Source: "/none", Target: "/x"}} },
		`needs a role and a node name`:                            func(s *component.Spec) { s.Node = "" },
	} {
		if _, err := component.Build(spec(change), paper); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("got error %v, want a match of %s", err, want)
		}
	}
}

func TestTerminal(t *testing.T) {
	for _, tc := range []struct {
		given component.Options
		has   bool
		want  component.Options
	}{
		{component.Options{}, true, component.Options{Interactive: true, TTY: true}},
		{component.Options{}, false, component.Options{Detach: true}},
		{component.Options{Detach: true}, true, component.Options{Detach: true}},
		{component.Options{Interactive: true}, false, component.Options{Interactive: true}},
		{component.Options{Attach: true}, true, component.Options{Attach: true}},
	} {
		if diff := cmp.Diff(tc.want, tc.given.Terminal(tc.has)); diff != "" {
			t.Errorf("%+v, terminal %v (-want +got):\n%s", tc.given, tc.has, diff)
		}
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		component.StateVolume(engine.DefaultScope, "sl1"):       "swarmd-sl1",
		component.StateVolume("team", "sl1"):                    "swarmd-team-sl1",
		component.SpillVolume("", "sl1"):                        "swarmd-sl1-spill",
		component.StateDir(naming.RoleSL, "sl1"):                "/var/lib/swarmd/sl1",
		component.StateDir(engine.RoleSpireServer, "my-server"): "/var/lib/swarmd/spire-server",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// names is a DNS on paper.
type names map[string]string

func (n names) LookupHost(_ context.Context, host string) ([]string, error) {
	if a, ok := n[host]; ok {
		return []string{a}, nil
	}
	return nil, errors.New("no such host")
}

func (n names) LookupCNAME(_ context.Context, host string) (string, error) {
	if full, ok := n["full "+host]; ok {
		return full, nil
	}
	return "", errors.New("no such host")
}

func TestIsThisHost(t *testing.T) {
	dns := names{"alias.example": "10.0.0.1", "other.example": "10.0.0.2", "full box": "box.example."}
	for name, want := range map[string]bool{
		"": false, "10.0.0.1": true, "10.0.0.2": false, "127.0.0.1": false, "::ffff:10.0.0.1": true,
		"box": true, "BOX": true, "box.example": true, "box.elsewhere": false, "alias.example": true, "other.example": false, "nobody": false,
	} {
		if got := component.IsThisHost(t.Context(), name, "box", "10.0.0.1", dns); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
