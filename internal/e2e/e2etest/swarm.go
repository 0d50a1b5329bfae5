package e2etest

import (
	"bufio"
	"context"
	_ "embed" // the program
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/netns"
)

// nets gives each swarm of this process a /24 of loopback addresses: 127.X.N.*.
var nets atomic.Int32

// block is X, which this process alone has while the listener is open: packages that are tested at the same time do not
// meet. It is held until the process ends.
type block struct {
	x    int
	held net.Listener
}

var ownBlock = sync.OnceValues(func() (block, error) {
	var last error
	for i := range 128 {
		x := 64 + (os.Getpid()+i)%128
		l, err := net.Listen("tcp", fmt.Sprintf("127.%d.0.1:30302", x))
		if err == nil {
			return block{x, l}, nil
		}
		last = err
	}
	return block{}, fmt.Errorf("no block of loopback addresses is free: %w", last)
})

// Swarm is one test's folder, addresses and processes.
type Swarm struct {
	T      *testing.T
	Dir    string // short: unix sockets have 108 bytes
	prefix string // of addresses: "127.X.N."; empty in namespaces
	net    *netns.Net
	hosts  map[int]*netns.Host
	// Identity gives the options with which node i of a role ("sn", "sl") finds its identity.
	Identity func(role string, i int) []string
}

// NewSwarm gives a test its folder and addresses.
func NewSwarm(t *testing.T, identity func(role string, i int) []string) *Swarm {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	own, err := ownBlock()
	if err != nil {
		t.Fatal(err)
	}
	return &Swarm{T: t, Dir: dir, prefix: fmt.Sprintf("127.%d.%d.", own.x, nets.Add(1)), Identity: identity}
}

// InNamespaces gives each node of the swarm a network namespace of its own, so that links can be cut and limited: see Host. It
// skips the test where that can't be. Call it before any node is started.
func (w *Swarm) InNamespaces() {
	w.T.Helper()
	if err := netns.Available(); err != nil {
		w.T.Skip(err)
	}
	n, err := netns.New()
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() {
		if err := n.Close(); err != nil {
			w.T.Error(err)
		}
	})
	w.prefix, w.net, w.hosts = "", n, map[int]*netns.Host{}
}

// Host is the place of the node with the address Addr(i), in namespaces.
func (w *Swarm) Host(i int) *netns.Host {
	w.T.Helper()
	if w.hosts[i] == nil {
		h, err := w.net.Add()
		if err != nil {
			w.T.Fatal(err)
		}
		w.hosts[i] = h
	}
	return w.hosts[i]
}

// Names has the nodes, in namespaces, know these host names: those of node i are names[i]. Call it before any of them is started.
func (w *Swarm) Names(names map[int][]string) {
	w.T.Helper()
	text := "127.0.0.1 localhost\n"
	for i, of := range names {
		text += w.Addr(i) + " " + strings.Join(of, " ") + "\n"
	}
	w.net.Names = w.Path("hosts")
	if err := os.WriteFile(w.net.Names, []byte(text), 0o644); err != nil {
		w.T.Fatal(err)
	}
}

// Start runs a binary of BinDir, or one with an absolute path, at node i's place.
func (w *Swarm) Start(i int, name string, args ...string) *Proc {
	w.T.Helper()
	if w.net != nil {
		if !filepath.IsAbs(args[0]) {
			args[0] = filepath.Join(BinDir, args[0])
		}
		args = w.Host(i).Command(args...)
		ip, err := exec.LookPath(args[0])
		if err != nil {
			w.T.Fatal(err)
		}
		args[0] = ip
	}
	return Start(w.T, name, w.Dir, nil, args...)
}

// Path is a path in the swarm's folder.
func (w *Swarm) Path(elem ...string) string {
	return filepath.Join(append([]string{w.Dir}, elem...)...)
}

// Addr is node i's address: SNs from 1, SLs from 11.
func (w *Swarm) Addr(i int) string {
	if w.net != nil {
		return w.Host(i).Addr
	}
	return fmt.Sprintf("%s%d", w.prefix, i)
}

// SN starts SN i; SN 1 is the Sentinel. The quorum wait is short: nobody wants to wait here for a node that was killed.
func (w *Swarm) SN(i int, extra ...string) *Proc {
	w.T.Helper()
	args := append([]string{
		"swarmd", "run-sn", "--name", fmt.Sprintf("sn-%d", i), "--host-ip", w.Addr(i), "--sentinel-ip", w.Addr(1),
		"--state-dir", w.Path(fmt.Sprintf("sn%d", i)), "--full-quorum-wait", "2s", "--found-at-once",
	}, w.Identity("sn", i)...)
	return w.Start(i, fmt.Sprintf("sn-%d", i), append(args, extra...)...)
}

// SL starts SL i with testdata/train.py at SN (i-1)%3+1; extra is K=V for the program or more options.
func (w *Swarm) SL(i int, extra ...string) *Proc {
	w.T.Helper()
	return w.Start(10+i, fmt.Sprintf("sl-%d", i), w.SLArgs(i, extra...)...)
}

// SLArgs is the command line of SL.
func (w *Swarm) SLArgs(i int, extra ...string) []string {
	w.T.Helper()
	model := w.Path(fmt.Sprintf("model%d", i))
	w.CopyProgram(model)
	args := append([]string{
		"swarmd", "run-sl", "--name", fmt.Sprintf("sl-%d", i), "--host-ip", w.Addr(10 + i), "--sn-ip", w.Addr((i-1)%3 + 1),
		"--state-dir", w.Path(fmt.Sprintf("sl%d", i)), "--bridge-dir", w.Bridge(i),
		"--model-dir", model, "--model-program", "train.py", "--sl-platform", "PYT", "--python", Python,
		"-e", fmt.Sprintf("SEED=%d", i), "-e", "SWARM_METRICS_FILE=" + w.Metrics(i),
	}, w.Identity("sl", i)...)
	for _, x := range extra {
		if !strings.HasPrefix(x, "-") {
			args = append(args, "-e")
		}
		args = append(args, x)
	}
	return args
}

// Bridge is the folder of SL i's bridge.
func (w *Swarm) Bridge(i int) string { return w.Path(fmt.Sprintf("br%d", i)) }

// Metrics is the file that SL i's program writes its metrics to.
func (w *Swarm) Metrics(i int) string { return w.Path(fmt.Sprintf("metrics%d", i)) }

//go:embed testdata/train.py
var program []byte

// CopyProgram puts train.py into a folder, which it makes.
func (w *Swarm) CopyProgram(dir string) {
	w.T.Helper()
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "train.py"), program, 0o644)
	}
	if err != nil {
		w.T.Fatal(err)
	}
}

// Event is a line of a metrics file.
type Event struct {
	Event  string `json:"event"`
	Round  int    `json:"round"`
	Rounds int    `json:"rounds"`
	SHA256 string `json:"model_sha256"`
}

// End returns the last event of SL i's program, which must be its end.
func (w *Swarm) End(i int) Event {
	w.T.Helper()
	f, err := os.Open(w.Metrics(i))
	if err != nil {
		w.T.Fatal(err)
	}
	defer f.Close()
	var e Event
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			w.T.Fatalf("metrics of sl-%d: %v", i, err)
		}
	}
	if e.Event != "end" || e.SHA256 == "" {
		w.T.Fatalf("metrics of sl-%d end with %+v, want an end with a digest", i, e)
	}
	return e
}

// Agree wants the programs of these SLs to hold the same final model.
func (w *Swarm) Agree(sls ...int) Event {
	w.T.Helper()
	first := w.End(sls[0])
	for _, i := range sls[1:] {
		if e := w.End(i); e.SHA256 != first.SHA256 || e.Round != first.Round {
			w.T.Errorf("sl-%d ends with %+v, sl-%d with %+v; want the same model", i, e, sls[0], first)
		}
	}
	return first
}

// Status asks SL i's bridge, as a program would. It is nil while the bridge does not answer.
func (w *Swarm) Status(i int) map[string]any {
	c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(w.Bridge(i), "bridge.sock"))
	}}}
	res, err := c.Get("http://bridge/v1/status")
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	var m map[string]any
	if err != nil || json.Unmarshal(body, &m) != nil {
		return nil
	}
	return m
}

// Until polls what no line tells.
func (w *Swarm) Until(what string, is func() bool) {
	w.T.Helper()
	w.UntilWithin(Timeout, what, is)
}

// UntilWithin is Until for what takes its time.
func (w *Swarm) UntilWithin(limit time.Duration, what string, is func() bool) {
	w.T.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			w.T.Fatalf("no %s within %s", what, limit)
		}
	}
}

// LeavesNothing wants no socket and no bridge folder once all have ended.
func (w *Swarm) LeavesNothing() {
	w.T.Helper()
	err := filepath.WalkDir(w.Dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type()&fs.ModeSocket != 0:
			w.T.Errorf("socket %s is left", path)
		case d.IsDir() && strings.HasPrefix(d.Name(), "br"):
			w.T.Errorf("bridge folder %s is left", path)
		}
		return nil
	})
	if err != nil {
		w.T.Error(err)
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if line, err := os.ReadFile(p); err == nil && strings.Contains(string(line), w.Dir+"/") {
			w.T.Errorf("process %s is left: %s", p, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
}
