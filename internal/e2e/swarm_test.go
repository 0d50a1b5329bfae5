package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// nets gives each swarm of this process a /24 of loopback addresses: 127.X.N.*, with X from the process ID, so that
// packages that are tested at the same time do not meet.
var nets atomic.Int32

// swarm is one test's folder, addresses and processes.
type swarm struct {
	t      *testing.T
	dir    string // short: unix sockets have 108 bytes
	prefix string // of addresses: "127.X.N."
}

func newSwarm(t *testing.T) *swarm {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &swarm{t: t, dir: dir, prefix: fmt.Sprintf("127.%d.%d.", 64+os.Getpid()%128, nets.Add(1))}
}

func (w *swarm) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

// addr is node i's address: SNs from 1, SLs from 11.
func (w *swarm) addr(i int) string { return fmt.Sprintf("%s%d", w.prefix, i) }

func (w *swarm) authority() *proc {
	w.t.Helper()
	return start(w.t, "authority", w.dir, nil, "swarmd", "run-authority", "--dir", w.path("ca"))
}

// sn starts SN i; SN 1 is the Sentinel. The quorum wait is short: nobody wants to wait here for a node that was killed.
func (w *swarm) sn(i int, extra ...string) *proc {
	w.t.Helper()
	return start(w.t, fmt.Sprintf("sn-%d", i), w.dir, nil, append([]string{
		"swarmd", "run-sn", "--name", fmt.Sprintf("sn-%d", i), "--host-ip", w.addr(i), "--sentinel-ip", w.addr(1),
		"--identity", "embedded=" + w.path("ca"), "--state-dir", w.path(fmt.Sprintf("sn%d", i)), "--full-quorum-wait", "2s",
	}, extra...)...)
}

// sl starts SL i with testdata/train.py at SN (i-1)%3+1; extra is K=V for the program or more options.
func (w *swarm) sl(i int, extra ...string) *proc {
	w.t.Helper()
	return start(w.t, fmt.Sprintf("sl-%d", i), w.dir, nil, w.slArgs(i, extra...)...)
}

func (w *swarm) slArgs(i int, extra ...string) []string {
	w.t.Helper()
	model := w.path(fmt.Sprintf("model%d", i))
	w.copyProgram(model)
	args := []string{
		"swarmd", "run-sl", "--name", fmt.Sprintf("sl-%d", i), "--host-ip", w.addr(10 + i), "--sn-ip", w.addr((i-1)%3 + 1),
		"--identity", "embedded=" + w.path("ca"), "--state-dir", w.path(fmt.Sprintf("sl%d", i)), "--bridge-dir", w.bridge(i),
		"--model-dir", model, "--model-program", "train.py", "--sl-platform", "PYT", "--python", python,
		"-e", fmt.Sprintf("SEED=%d", i), "-e", "SWARM_METRICS_FILE=" + w.metrics(i),
	}
	for _, x := range extra {
		if !strings.HasPrefix(x, "-") {
			args = append(args, "-e")
		}
		args = append(args, x)
	}
	return args
}

func (w *swarm) bridge(i int) string  { return w.path(fmt.Sprintf("br%d", i)) }
func (w *swarm) metrics(i int) string { return w.path(fmt.Sprintf("metrics%d", i)) }

func (w *swarm) copyProgram(dir string) {
	w.t.Helper()
	source, err := os.ReadFile("testdata/train.py")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "train.py"), source, 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// up starts the authority and three SNs and waits until they serve.
func (w *swarm) up() (authority *proc, sns []*proc) {
	w.t.Helper()
	authority = w.authority()
	for i := 1; i <= 3; i++ {
		sns = append(sns, w.sn(i))
	}
	for _, p := range sns {
		p.sees(" : INFO : Starting SWARM-API-SERVER on port: 30304")
	}
	return authority, sns
}

// event is a line of a metrics file.
type event struct {
	Event  string `json:"event"`
	Round  int    `json:"round"`
	Rounds int    `json:"rounds"`
	SHA256 string `json:"model_sha256"`
}

// end returns the last event of SL i's program, which must be its end.
func (w *swarm) end(i int) event {
	w.t.Helper()
	f, err := os.Open(w.metrics(i))
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	var e event
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			w.t.Fatalf("metrics of sl-%d: %v", i, err)
		}
	}
	if e.Event != "end" || e.SHA256 == "" {
		w.t.Fatalf("metrics of sl-%d end with %+v, want an end with a digest", i, e)
	}
	return e
}

// agree wants the programs of these SLs to hold the same final model.
func (w *swarm) agree(sls ...int) event {
	w.t.Helper()
	first := w.end(sls[0])
	for _, i := range sls[1:] {
		if e := w.end(i); e.SHA256 != first.SHA256 || e.Round != first.Round {
			w.t.Errorf("sl-%d ends with %+v, sl-%d with %+v; want the same model", i, e, sls[0], first)
		}
	}
	return first
}

// status asks SL i's bridge, as a program would. It is nil while the bridge does not answer.
func (w *swarm) status(i int) map[string]any {
	c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(w.bridge(i), "bridge.sock"))
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

// until polls what no line tells.
func (w *swarm) until(what string, is func() bool) {
	w.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			w.t.Fatalf("no %s within %s", what, patience)
		}
	}
}

// leavesNothing wants no socket and no bridge folder once all have ended.
func (w *swarm) leavesNothing() {
	w.t.Helper()
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type()&fs.ModeSocket != 0:
			w.t.Errorf("socket %s is left", path)
		case d.IsDir() && strings.HasPrefix(d.Name(), "br"):
			w.t.Errorf("bridge folder %s is left", path)
		}
		return nil
	})
	if err != nil {
		w.t.Error(err)
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if line, err := os.ReadFile(p); err == nil && strings.Contains(string(line), w.dir+"/") {
			w.t.Errorf("process %s is left: %s", p, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
}
