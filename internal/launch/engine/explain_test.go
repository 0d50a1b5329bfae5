package engine_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/nat"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// asNobody makes this binary open the engine and say how that went, as a user without rights.
const asNobody = "SWARM_TEST_OPEN_ENGINE"

func TestMain(m *testing.M) {
	if os.Getenv(asNobody) == "" {
		os.Exit(m.Run())
	}
	_, err := engine.Open(context.Background())
	fmt.Fprintln(os.Stdout, explained(err))
}

// explained is an error with its remedy, as the command line shows it.
func explained(err error) string {
	var with interface{ Remedy() string }
	if errors.As(err, &with) {
		return fmt.Sprintf("%v: %s", err, with.Remedy())
	}
	return fmt.Sprint(err)
}

// lab is an engine with things of the test's own to go wrong with.
type lab struct {
	t      *testing.T
	e      *engine.Engine
	image  string
	labels map[string]string
}

func newLab(t *testing.T, e *engine.Engine, image, scope string) lab {
	return lab{t, e, image, map[string]string{engine.LabelScope: scope}}
}

// create makes a container, which the scope's or the engine's end removes.
func (l lab) create(name string, h container.HostConfig, words ...string) (string, error) {
	if h.NetworkMode == "" {
		h.NetworkMode = "none"
	}
	if len(words) == 0 {
		words = []string{"true"}
	}
	c, err := l.e.ContainerCreate(l.t.Context(), &container.Config{
		Image: l.image, Cmd: words, StopSignal: "SIGKILL", Labels: l.labels,
		ExposedPorts: nat.PortSet{"80/tcp": {}},
	}, &h, nil, nil, name)
	return c.ID, err
}

// run makes and starts one.
func (l lab) run(name string, h container.HostConfig, words ...string) error {
	id, err := l.create(name, h, words...)
	if err != nil {
		return err
	}
	return l.e.ContainerStart(l.t.Context(), id, container.StartOptions{})
}

func (l lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func published(ip, port string) container.HostConfig {
	return container.HostConfig{NetworkMode: "bridge", PortBindings: nat.PortMap{"80/tcp": {{HostIP: ip, HostPort: port}}}}
}

func bind(source, target string) container.HostConfig {
	return container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeBind, Source: source, Target: target}}}
}

// listen occupies a port of 127.0.0.1 and returns it.
func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

type mishap struct {
	name    string
	provoke func() error
	want    []string
}

// mishaps are what goes wrong in one way at Docker and at Podman.
func (l lab) mishaps(scope string) []mishap {
	ctx := l.t.Context()
	return []mishap{
		{"name", func() error {
			_, err := l.create(scope+"-twin", container.HostConfig{})
			l.must(err)
			_, err = l.create(scope+"-twin", container.HostConfig{})
			return err
		}, []string{"the name " + scope + "-twin is in use by container ", "docker rm -f " + scope + "-twin", "stop-swarm"}},
		{"name of wrong form", func() error { _, err := l.create("a/b", container.HostConfig{}); return err }, []string{"letters, digits"}},
		{"network", func() error { return l.run("", container.HostConfig{NetworkMode: "no-such-net"}) }, []string{"network no-such-net does not exist: create it (docker network create no-such-net)"}},
		{"program", func() error { return l.run("", container.HostConfig{}, "no-such-program") }, []string{"the image has no program no-such-program"}},
		{"volume in use", func() error {
			_, err := l.e.VolumeCreate(ctx, volume.CreateOptions{Name: scope, Labels: l.labels})
			l.must(err)
			_, err = l.create("", container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: scope, Target: "/v"}}})
			l.must(err)
			return l.e.VolumeRemove(ctx, scope, false)
		}, []string{"volume " + scope + " is in use by container ", "docker ps -a --filter volume=" + scope}},
		{"missing image", func() error {
			_, err := l.e.ContainerCreate(ctx, &container.Config{Image: "nosuch:7"}, nil, nil, nil, "")
			return err
		}, []string{"image nosuch:7 is not at the engine: fetch it (docker pull nosuch:7)"}},
		{"our image", func() error {
			_, err := l.e.ContainerCreate(ctx, &container.Config{Image: "swarm-ml-pyt:never"}, nil, nil, nil, "")
			return err
		}, []string{"image swarm-ml-pyt:never is not at the engine: build it with make image"}},
		{"gone container", func() error { return l.e.ContainerStart(ctx, scope+"-gone", container.StartOptions{}) }, []string{"start it anew"}},
	}
}

// dockers are those of Docker alone. Podman makes a missing mount source, and passes over a request for GPUs that it has no
// driver for: who runs programs there must look himself.
func (l lab) dockers(scope string) []mishap {
	ctx := l.t.Context()
	return []mishap{
		{"mount source", func() error { return l.run("", bind("/no/such/dir", "/x")) }, []string{"mount source /no/such/dir does not exist: create it"}},
		{"GPU", func() error {
			return l.run("", container.HostConfig{Resources: container.Resources{DeviceRequests: []container.DeviceRequest{{Count: -1, Capabilities: [][]string{{"gpu", "utility"}}}}}})
		}, []string{"could not select device driver", "install the NVIDIA container toolkit", "leave --gpu out"}},
		{"port of a container", func() error {
			l.must(l.run(scope+"-port", published("127.0.0.1", ""), "sleep", "1000"))
			c, err := l.e.ContainerInspect(ctx, scope+"-port")
			l.must(err)
			port := c.NetworkSettings.Ports["80/tcp"][0].HostPort
			return l.run("", published("127.0.0.1", port))
		}, []string{"port is already allocated", "is in use: stop what listens there"}},
		{"port of a process", func() error { return l.run("", published("127.0.0.1", listen(l.t))) }, []string{"address already in use", "is in use: stop what listens there"}},
		{"address of somebody else", func() error { return l.run("", published("203.0.113.7", "39997")) }, []string{"publish at an address that this host has"}},
		{"file onto directory", func() error { return l.run("", bind("/etc/passwd", "/etc")) }, []string{"a file onto a file"}},
		{"device", func() error {
			return l.run("", container.HostConfig{Resources: container.Resources{Devices: []container.DeviceMapping{{PathOnHost: "/dev/nosuch", PathInContainer: "/dev/nosuch"}}}})
		}, []string{"the driver that makes /dev/nosuch"}},
		{"memory limit", func() error { return l.run("", container.HostConfig{Resources: container.Resources{Memory: 1 << 20}}) }, []string{"raise the memory limit to 6MB"}},
		{"CPU limit", func() error { return l.run("", container.HostConfig{Resources: container.Resources{NanoCPUs: 1e15}}) }, []string{"within that range"}},
		{"runtime", func() error { return l.run("", container.HostConfig{Runtime: "nosuch"}) }, []string{"the engine's runtimes"}},
		{"user", func() error {
			c, err := l.e.ContainerCreate(ctx, &container.Config{Image: l.image, User: "nosuch", Cmd: []string{"true"}, Labels: l.labels}, nil, nil, nil, "")
			l.must(err)
			return l.e.ContainerStart(ctx, c.ID, container.StartOptions{})
		}, []string{"as a number"}},
		{"network in use", func() error {
			_, err := l.e.NetworkCreate(ctx, scope, network.CreateOptions{Labels: l.labels})
			l.must(err)
			l.must(l.run("", container.HostConfig{NetworkMode: container.NetworkMode(scope)}, "sleep", "1000"))
			return l.e.NetworkRemove(ctx, scope)
		}, []string{"stop the containers in it first"}},
		{"network twice", func() error {
			_, err := l.e.NetworkCreate(ctx, scope, network.CreateOptions{})
			return err
		}, []string{"docker network rm " + scope}},
		{"no space", func() error {
			_, err := l.e.VolumeCreate(ctx, volume.CreateOptions{Name: scope + "-small", Labels: l.labels, DriverOpts: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": "size=64k"}})
			l.must(err)
			id, err := l.create("", container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: scope + "-small", Target: "/v"}}})
			l.must(err)
			return l.e.CopyToContainer(ctx, id, "/v", bytes.NewReader(archive(l.t, "big", 1<<20)), container.CopyToContainerOptions{})
		}, []string{"no space left on device", "docker system prune"}},
		{"engine too old", func() error { return l.version("1.99") }, []string{"update the engine (Docker 20.10 or later)"}},
		{"engine too new", func() error { return l.version("1.11") }, []string{"unset DOCKER_API_VERSION"}},
	}
}

// version asks with a version of the API that the engine does not speak.
func (l lab) version(v string) error {
	c, err := client.NewClientWithOpts(client.WithHost(l.e.DaemonHost()), client.WithVersion(v))
	l.must(err)
	defer c.Close()
	_, err = c.Info(l.t.Context())
	return err
}

// archive is a tar with one file.
func archive(t *testing.T, name string, size int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: size}))
	if err == nil {
		_, err = io.CopyN(w, zeros{}, size)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// importImage makes an image of one empty file.
func importImage(t *testing.T, e *engine.Engine) string {
	t.Helper()
	const name = "empty:1"
	r, err := e.ImageImport(t.Context(), image.ImportSource{Source: bytes.NewReader(archive(t, "file", 0)), SourceName: "-"}, name, image.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := io.ReadAll(r); err != nil || bytes.Contains(text, []byte(`"error"`)) {
		t.Fatalf("import: %v, %s", err, text)
	}
	return name
}

func check(t *testing.T, all []mishap) {
	t.Helper()
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			raw := m.provoke()
			err := engine.Explain(fmt.Errorf("do it: %w", raw))
			text := explained(err)
			t.Logf("%q\n→ %s", fmt.Sprint(raw), text)
			if raw == nil {
				t.Fatal("nothing went wrong")
			}
			for _, w := range m.want {
				if !strings.Contains(text, w) {
					t.Errorf("no %q", w)
				}
			}
			tidy(t, text)
			if !errors.Is(err, raw) || !strings.HasPrefix(text, "do it: ") || strings.Contains(text, "Error response") {
				t.Errorf("the error lost what it is, or says who told it")
			}
			if again := engine.Explain(err); again != err { //nolint:errorlint // the same one
				t.Errorf("explained twice: %v", again)
			}
		})
	}
}

// tidy wants one printable line.
func tidy(t *testing.T, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%q is not printable at %d", text, i)
	}
	if len(text) > 2000 {
		t.Errorf("%d bytes are too many", len(text))
	}
}

// TestExplain makes each mistake at the machine's engine.
func TestExplain(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	l := newLab(t, e, enginetest.TestImage, scope)
	check(t, l.mishaps(scope))
	check(t, l.dockers(scope))
}

// TestExplainPodman makes those that Podman answers in other words.
func TestExplainPodman(t *testing.T) {
	host := enginetest.Podman(t, enginetest.Images())
	e := enginetest.Dial(t, host)
	all := newLab(t, e, importImage(t, e), "podman").mishaps("podman")
	check(t, all)
}

// TestExplainNoInit takes docker-init away from an engine.
func TestExplainNoInit(t *testing.T) {
	p := enginetest.Private(t, enginetest.Images(), enginetest.Without("docker-init"))
	l := newLab(t, p.Engine(), importImage(t, p.Engine()), "init")
	yes := true
	check(t, []mishap{{"no init", func() error { return l.run("", container.HostConfig{Init: &yes}) }, []string{"install the engine's init (docker-init"}}})
}

// TestOpen looks for engines where there are none.
func TestOpen(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "engine-") // short: sockets have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	tests := []struct{ host, want, lasts string }{
		{"unix://" + dir + "/none.sock", "reach container engine: no container engine at unix://" + dir + "/none.sock: start the engine (systemctl start docker)", ""},
		{"unix://" + dir + "/podman.sock", "systemctl start podman.socket", ""},
		{"unix://" + dead, "no container engine at unix://" + dead + ": start the engine", ""},
		{"tcp://127.0.0.1:1", "no container engine at tcp://127.0.0.1:1: start it, or correct DOCKER_HOST", ""},
		{"nonsense", "unable to parse docker host `nonsense`: correct DOCKER_HOST", "DOCKER_HOST is wrong there"},
	}
	for _, test := range tests {
		t.Setenv("DOCKER_HOST", test.host)
		_, err := engine.Open(t.Context())
		if text := explained(err); !strings.Contains(text, test.want) {
			t.Errorf("%s: %s, want %q", test.host, text, test.want)
		} else {
			tidy(t, text)
		}
		var known *engine.Error
		if !errors.As(err, &known) || known.Lasts() != test.lasts {
			t.Errorf("%s: lasts %+v, want %q", test.host, known, test.lasts)
		}
	}
}

// TestOpenDenied has no right to the machine's engine.
func TestOpenDenied(t *testing.T) {
	enginetest.Engine(t)
	if os.Getuid() != 0 {
		t.Skip("needs root: to become a user without rights")
	}
	dir, err := os.MkdirTemp("/tmp", "engine-") // one that others may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "test"), binary, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "test"))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asNobody+"=1", "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := strings.TrimSpace(string(out))
	for _, want := range []string{"no permission to use the engine's socket /var/run/docker.sock: add --sudo", "sudo usermod -aG docker"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q has no %q", text, want)
		}
	}
	tidy(t, text)
}

// TestExplainWords holds messages that no machine of ours gives, recorded from those that do.
func TestExplainWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	tests := []struct{ text, want string }{
		{"Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running hook #0: error running hook: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown", "restart the machine"},
		{"OCI runtime create failed: nvidia-container-cli: device error: 7: unknown device: unknown", "choose GPUs that nvidia-smi -L lists"},
		{"OCI runtime create failed: nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown", "modprobe nvidia"},
		{"failed to create endpoint x on network bridge: adding interface veth1 to bridge docker0 failed: could not find bridge docker0: route ip+net: no such network interface", "restart the engine: somebody removed its bridge docker0"},
		{"driver failed programming external connectivity on endpoint x:  (iptables failed: iptables --wait -t nat -A DOCKER: iptables: No chain/target/match by that name.\n (exit status 1))", "restart the engine: somebody removed its firewall rules"},
		{"error during connect: Get \"http://nowhere:2375/_ping\": dial tcp: lookup nowhere: no such host", "correct the host in DOCKER_HOST"},
		{"\"specify\" requires API version 1.44, but the Docker daemon API version is 1.41", "Docker 20.10 or later"},
		{"something \x1b[31mred\x1b[0m\r\n\tand \u202eturned\u2028 \x00 \xff", "something [31mred [0m and turned: "},
		{"exec: \"" + long + "\": executable file not found in $PATH", "the image has no program"},
		{"first " + long + " last", "… "},
	}
	for _, test := range tests {
		raw := errors.New(test.text)
		text := explained(engine.Explain(raw))
		if !strings.Contains(text, test.want) {
			t.Errorf("%.300q\n→ %s\nwant %q", test.text, text, test.want)
		}
		tidy(t, text)
	}
	if engine.Explain(nil) != nil {
		t.Error("nil is explained")
	}
	for _, ended := range []error{context.Canceled, fmt.Errorf("wait: %w", context.DeadlineExceeded)} {
		if got := engine.Explain(ended); got != ended { //nolint:errorlint // the same one
			t.Errorf("%v became %v", ended, got)
		}
	}
	if err := engine.Explain(fmt.Errorf("x: %w", errdefs.ErrNotFound)); !errdefs.IsNotFound(err) {
		t.Errorf("%v is not a not-found any more", err)
	}
}

// TestWhatLasts is told apart from what may pass, in words that tell nothing of the host.
func TestWhatLasts(t *testing.T) {
	for said, want := range map[string]string{
		"permission denied while trying to connect to the Docker daemon socket at unix:///run/secret.sock: Get x: dial unix /run/secret.sock: connect: permission denied": "it has no permission to use the engine",
		"error during connect: Get \"http://secret:2375/_ping\": dial tcp: lookup secret: no such host":                                                                   "",
		"error during connect: Get \"http://secret:2375/_ping\": dial tcp: lookup secret on 127.0.0.53:53: server misbehaving":                                            "",
		"malformed HTTP response. * Are you trying to connect to a TLS-enabled daemon without TLS?":                                                                       "the engine wants TLS, or none",
		"client version 1.99 is too new. Maximum supported API version is 1.48":                                                                                           "the engine is of another version than is asked for",
		"Cannot connect to the Docker daemon at tcp://secret:2375. Is the docker daemon running?":                                                                         "",
		"no space left on device": "",
	} {
		var known *engine.Error
		if !errors.As(engine.Explain(errors.New(said)), &known) || known.Lasts() != want {
			t.Errorf("%s: %+v, want %q", said, known, want)
		}
	}
}

// FuzzExplain holds that every message becomes one bounded printable line.
func FuzzExplain(f *testing.F) {
	f.Add("Error response from daemon: network \x1b]0;x\a not found")
	f.Fuzz(func(t *testing.T, text string) { tidy(t, explained(engine.Explain(errors.New(text)))) })
}

// TestTakenPort: a port that is in use is known by what engines say of it, explained or not.
func TestTakenPort(t *testing.T) {
	for said, want := range map[string]int{
		"driver failed programming external connectivity on endpoint a (1f): Bind for 0.0.0.0:30308 failed: port is already allocated":  30308,
		"failed to set up container networking: Error starting userland proxy: listen tcp4 0.0.0.0:30308: bind: address already in use": 30308,
		"failed to bind host port 0.0.0.0:30308/tcp: address already in use":                                                            30308,
		"driver failed (1f): failed to bind host port for 0.0.0.0:30308:172.17.0.2:30308/tcp: address already in use":                   30308,
		"failed to bind host port [::]:30310/tcp: address already in use":                                                               30310,
		"rootlessport listen tcp 0.0.0.0:30309: bind: address already in use":                                                           30309,
		"no such image": 0,
	} {
		raw := errors.New(said)
		if got := engine.TakenPort(raw); got != want {
			t.Errorf("%s: %d", said, got)
		}
		if got := engine.TakenPort(engine.Explain(raw)); got != want {
			t.Errorf("%s, explained: %d", said, got)
		}
	}
	if got := engine.TakenPort(nil); got != 0 {
		t.Errorf("no error: %d", got)
	}
}
