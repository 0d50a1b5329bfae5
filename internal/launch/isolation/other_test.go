package isolation_test

import (
	"archive/tar"
	_ "embed" // the program
	"encoding/json"
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

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

//go:embed testdata/ways.py
var program []byte

const (
	greeting   = "hello from outside"
	defaultTop = 4096 // tasks in a container by default
	metadataIP = "169.254.169.254"
)

// target is ways.json: what the test put outside the isolation.
type target struct {
	Greeting string   `json:"greeting"`
	DNS      []string `json:"dns"`
	TCP      []string `json:"tcp"`
	Abstract string   `json:"abstract"` // socket without a file, which belongs to the host's network
	Metadata string   `json:"metadata"`
	Engines  []string `json:"engines"`
	Marker   string   `json:"marker"` // argument of a process on the host
	Secret   string   `json:"secret"` // in its environment, in a file of the host, in another node's bridge directory
	PID      int      `json:"pid"`
	File     string   `json:"file"`
	Nodes    [][3]any `json:"nodes"` // devices of the host: "b" or "c", major, minor
	Bridge   string   `json:"bridge"`
	Tasks    int      `json:"tasks"`
}

// other is the other side: on the machine, but not the program's. All of it is gone when the test ends.
type other struct {
	target
	refused map[string]string // ways that the machine itself shuts, and why
	cat     []byte            // a program for setuid
}

// ways are all that ways.py tries.
var ways = []string{
	"dns", "tcp", "raw", "engine", "metadata", "proc", "ptrace", "devices", "data", "forks",
	"root file system", "setuid", "mount", "another node's bridge",
}

func newOther(t *testing.T, e *engine.Engine, scope string) *other {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: to put something outside the isolation")
	}
	o := &other{refused: map[string]string{}, cat: catOf(t, e)}
	o.Greeting, o.Secret, o.Marker, o.Tasks = greeting, "secret of "+scope, "marker-"+scope, defaultTop+64
	o.Engines = []string{"/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"}
	o.listen(t, scope)
	o.metadata(t)
	o.files(t, scope)
	o.process(t)
	var root unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		t.Fatal(err)
	}
	o.Nodes = [][3]any{{"c", 1, 11}, {"c", 1, 1}, {"b", 7, 0}} // kernel log, memory, loop device
	if unix.Major(root.Dev) > 0 {
		o.Nodes = append(o.Nodes, [3]any{"b", unix.Major(root.Dev), unix.Minor(root.Dev)})
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Max < 2*uint64(o.Tasks) {
		o.refused["forks"] = fmt.Sprintf("the machine allows a user %d tasks", limit.Max)
	}
	return o
}

// listen answers at the host's addresses, the gateway of the engine's bridge among them.
func (o *other) listen(t *testing.T, scope string) {
	t.Helper()
	tcp, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	greet(t, tcp)
	o.Abstract = "isolation-" + scope
	abstract, err := net.Listen("unix", "@"+o.Abstract)
	if err != nil {
		t.Fatal(err)
	}
	greet(t, abstract)
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.To4() == nil || ip.IP.IsLinkLocalUnicast() {
			continue
		}
		o.TCP = append(o.TCP, fmt.Sprintf("%s:%d", ip.IP, tcp.Addr().(*net.TCPAddr).Port))
		udp, err := net.ListenPacket("udp4", ip.IP.String()+":0") // each its own: answers must come from there
		if err != nil {
			t.Fatal(err)
		}
		answer(t, udp)
		o.DNS = append(o.DNS, udp.LocalAddr().String())
	}
}

func greet(t *testing.T, l net.Listener) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, greeting)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
}

// answer is a name server that knows one answer.
func answer(t *testing.T, l net.PacketConn) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 512)
		for {
			n, from, err := l.ReadFrom(b)
			if err != nil {
				return
			}
			if n < 12 {
				continue
			}
			reply := append([]byte{b[0], b[1], 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, b[12:n]...)
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 192, 0, 2, 1)
			_, _ = l.WriteTo(reply, from)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
}

// metadata gives the loopback interface the address at which clouds tell a machine its secrets, so that what is sent there
// stays here.
func (o *other) metadata(t *testing.T) {
	t.Helper()
	o.Metadata = metadataIP + ":1"
	ip := func(verb string) error {
		out, err := exec.Command("ip", "address", verb, metadataIP+"/32", "dev", "lo").CombinedOutput()
		if err != nil && strings.Contains(string(out), "exists") { // a killed test left it
			return nil
		} else if err != nil {
			return fmt.Errorf("ip address %s: %w: %s", verb, err, out)
		}
		return nil
	}
	if err := ip("add"); err != nil {
		o.refused["metadata"] = "the address can not be added: " + err.Error()
		return
	}
	t.Cleanup(func() {
		if err := ip("del"); err != nil {
			t.Error(err)
		}
	})
	l, err := net.Listen("tcp4", metadataIP+":0")
	if err != nil {
		t.Fatal(err)
	}
	greet(t, l)
	o.Metadata = l.Addr().String()
}

// files are a file of the host's and the bridge directory of another node.
func (o *other) files(t *testing.T, scope string) {
	t.Helper()
	o.File = filepath.Join(t.TempDir(), "host-file")
	o.Bridge = "/dev/shm/swarmd/other-" + scope
	t.Cleanup(func() { _ = os.RemoveAll(o.Bridge) })
	err := errors.Join(
		os.WriteFile(o.File, []byte(o.Secret), 0o600), os.MkdirAll(o.Bridge, 0o711), os.WriteFile(filepath.Join(o.Bridge, "secret"), []byte(o.Secret), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// process runs on the host, with a secret in its environment.
func (o *other) process(t *testing.T) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Args[0] = o.Marker
	cmd.Env = []string{"SECRET=" + o.Secret}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o.PID = cmd.Process.Pid
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// catOf takes a program from the test image, to give it the setuid bit.
func catOf(t *testing.T, e *engine.Engine) []byte {
	t.Helper()
	c, err := e.ContainerCreate(t.Context(), &container.Config{Image: enginetest.TestImage, Cmd: []string{"true"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.ContainerRemove(t.Context(), c.ID, container.RemoveOptions{Force: true}) }()
	r, _, err := e.CopyFromContainer(t.Context(), c.ID, "/usr/bin/cat")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files := tar.NewReader(r)
	if _, err := files.Next(); err != nil {
		t.Fatal(err)
	}
	cat, err := io.ReadAll(files)
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// folders are a program's own: model, data and bridge.
type folders struct{ model, data, bridge string }

func (o *other) folders(t *testing.T, uid int) folders {
	t.Helper()
	top := t.TempDir()
	f := folders{filepath.Join(top, "model"), filepath.Join(top, "data"), filepath.Join(top, "bridge")}
	text, err := json.Marshal(o.target)
	if err != nil {
		t.Fatal(err)
	}
	cat := filepath.Join(f.model, "setuid-cat")
	err = errors.Join(
		os.Mkdir(f.model, 0o755), os.Mkdir(f.data, 0o777), os.Mkdir(f.bridge, 0o711), os.Chmod(f.data, 0o777), os.Chown(f.model, uid, uid),
		os.WriteFile(filepath.Join(f.model, "ways.py"), program, 0o644), os.WriteFile(filepath.Join(f.model, "ways.json"), text, 0o644),
		os.WriteFile(filepath.Join(f.data, "data"), []byte("data"), 0o666), os.Chmod(filepath.Join(f.data, "data"), 0o666),
		os.WriteFile(cat, o.cat, 0o755), os.Chmod(cat, 0o755|os.ModeSetuid),
	)
	if err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(f.model, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Flags&unix.ST_NOSUID != 0 {
		o.refused["setuid"] = "the test's directory is mounted nosuid"
	}
	return f
}
