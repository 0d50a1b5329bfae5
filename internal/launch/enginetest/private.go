package enginetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// PrivateEngine is an engine of a test's own, which may be stopped, killed and started. It knows the networks none and host
// only, and its host network is an empty one of its own, or that of In. It and all that it runs are gone when the test ends.
type PrivateEngine struct {
	t          testing.TB
	dir        string
	o          options
	log        logBuffer
	containerd *server
	dockerd    *server // nil while it is stopped
	env        []string
}

// Private starts an engine: a dockerd and a containerd with sockets, roots and cgroups of their own. It has TestImage
// from the machine's engine. The test is skipped where the programs or the rights to run them are missing.
func Private(t testing.TB, opts ...Option) *PrivateEngine {
	t.Helper()
	needRoot(t)
	for _, name := range []string{"dockerd", "containerd"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s: run scripts/engine", name)
		}
	}
	from := Engine(t)
	p := &PrivateEngine{t: t, dir: newHome(t), o: gather(opts)}
	p.env = environ(t, p.dir, p.o)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("---- private engine\n%s", last(p.log.String(), 40))
		}
	})
	if err := p.mountDisk(); err != nil {
		t.Fatal(err)
	}
	linked := linkImages(t.Context(), from, p.dir, p.o.images)
	if linked != nil {
		t.Logf("images are loaded, which takes longer: %v", linked)
		if err := empty(p.path("root")); err != nil {
			t.Fatal(err)
		}
	}
	p.startContainerd()
	p.containerd.awaitFile(t, p.path("containerd.sock"))
	p.Start()
	if linked == nil {
		return p
	}
	if err := load(t.Context(), from, p.Engine(), p.o.images); err != nil {
		t.Fatalf("load into the private engine: %v", err)
	}
	return p
}

// mountDisk mounts what the option Disk asks for. wipe takes it away.
func (p *PrivateEngine) mountDisk() error {
	if p.o.disk == 0 {
		return nil
	}
	if err := os.Mkdir(p.path("root"), 0o710); err != nil {
		return err
	}
	return unix.Mount("tmpfs", p.path("root"), "tmpfs", 0, fmt.Sprintf("size=%d", p.o.disk))
}

// empty removes what is in a directory. That there is none is no error.
func empty(dir string) error {
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range all {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	return err
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: an engine of the test's own")
	}
}

// environ is the environment of an engine: none of the user's own settings.
func environ(t testing.TB, dir string, o options) []string {
	t.Helper()
	path := append(o.path, filepath.SplitList(os.Getenv("PATH"))...)
	if len(o.without) > 0 {
		path = []string{filepath.Join(dir, "bin")}
		if err := linkPrograms(path[0], o); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"PATH=" + strings.Join(path, string(os.PathListSeparator)), "HOME=/nonexistent"}
}

// linkPrograms fills a directory with links to all programs of PATH but those that are to be hidden.
func linkPrograms(dir string, o options) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, from := range append(o.path, filepath.SplitList(os.Getenv("PATH"))...) {
		programs, _ := os.ReadDir(from) // PATH may name what is not there
		for _, p := range programs {
			err := os.Symlink(filepath.Join(from, p.Name()), filepath.Join(dir, p.Name()))
			if err != nil && !errors.Is(err, fs.ErrExist) { // the first in PATH wins
				return err
			}
		}
	}
	for _, name := range o.without {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// path is short: sockets have 107 bytes.
func (p *PrivateEngine) path(name string) string { return filepath.Join(p.dir, name) }

func (p *PrivateEngine) startContainerd() {
	p.t.Helper()
	socket := p.path("containerd.sock")
	config := `version = 2
root = "` + p.path("c/root") + `"
state = "` + p.path("c/state") + `"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "` + socket + `"
[ttrpc]
  address = "` + socket + `.ttrpc"
`
	if err := os.WriteFile(p.path("containerd.toml"), []byte(config), 0o600); err != nil {
		p.t.Fatal(err)
	}
	// The engine lives in a network namespace of its own: at its start a dockerd without a bridge removes docker0, which may be
	// the machine's engine's.
	within := []string{"unshare", "--net"}
	if p.o.namespace != "" {
		within = []string{"nsenter", "--net=" + p.o.namespace}
	}
	p.containerd = startServer(p.t, &p.log, p.env, append(within, "containerd", "--config", p.path("containerd.toml"))...)
}

// Host is the engine's address, a DOCKER_HOST.
func (p *PrivateEngine) Host() string { return "unix://" + p.path("docker.sock") }

// Engine is a new connection, which closes with the test.
func (p *PrivateEngine) Engine() *engine.Engine { p.t.Helper(); return Dial(p.t, p.Host()) }

// Start starts the engine after Stop or Kill and waits until it answers.
func (p *PrivateEngine) Start() {
	p.t.Helper()
	if p.dockerd != nil {
		p.t.Fatal("the private engine runs already")
	}
	args := []string{
		"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", p.containerd.cmd.Process.Pid),
		"dockerd", "--containerd=" + p.path("containerd.sock"), "--data-root=" + p.path("root"), "--exec-root=" + p.path("exec"),
		"--pidfile=" + p.path("pid"), "--host=" + p.Host(), "--config-file=" + p.path("daemon.json"), "--bridge=none", "--iptables=false", "--ip6tables=false",
		"--ip-forward=false", "--ip-masq=false", "--userland-proxy=false", "--storage-driver=overlay2", "--shutdown-timeout=2",
		"--exec-opt=native.cgroupdriver=cgroupfs", "--cgroup-parent=/" + cgroup(p.dir),
	}
	if p.o.liveRestore {
		args = append(args, "--live-restore")
	}
	if err := os.WriteFile(p.path("daemon.json"), []byte("{}"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.dockerd = startServer(p.t, &p.log, p.env, args...)
	p.dockerd.await(p.t, p.Host())
}

// Stop ends the engine with SIGTERM, as systemd does. Without LiveRestore its containers are stopped too.
func (p *PrivateEngine) Stop() {
	p.t.Helper()
	p.dockerd.end(p.t, syscall.SIGTERM)
	p.dockerd = nil
}

// Kill ends the engine with SIGKILL. Containers go on; the next Start takes them up with LiveRestore, else ends them.
func (p *PrivateEngine) Kill() {
	p.t.Helper()
	p.dockerd.end(p.t, syscall.SIGKILL)
	p.dockerd = nil
}

// Restart is Stop and Start.
func (p *PrivateEngine) Restart() { p.t.Helper(); p.Stop(); p.Start() }

// Log is what the engine has said.
func (p *PrivateEngine) Log() string { return p.log.String() }

func last(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
