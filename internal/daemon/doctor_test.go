package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/daemon"
	"github.com/swarmd/swarmd/internal/doctor"
)

// ward is a swarm of one SN with the embedded authority, and an SL that could join it.
type ward struct {
	t    *testing.T
	home string
	api  int // port of the SN's API
	good map[string]string
}

// env is a process of the ward.
func (w *ward) env(ctx context.Context, out io.Writer) daemon.Env {
	return daemon.Env{
		Stdout: out, Stderr: out,
		Getenv:  func(k string) string { return map[string]string{"HOME": w.home, "XDG_STATE_HOME": w.home}[k] },
		Signals: func(context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
	}.Impatient(time.Second)
}

// said collects what a command says.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *said) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *said) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// runs starts a command, which ends with the test, and waits for what it does.
func (w *ward) runs(is func(said string) bool, args ...string) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, done := &said{}, make(chan struct{})
	go func() {
		defer close(done)
		daemon.Main(append([]string{"swarmd"}, args...), w.env(ctx, out))
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is(out.String()) {
		select {
		case <-tick.C:
		case <-done:
			w.t.Fatalf("%v has ended: %s", args, out)
		case <-w.t.Context().Done():
			w.t.Fatalf("%v does not come so far: %s", args, out)
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// python writes an interpreter that says what a script would.
func python(t *testing.T, dir, framework string) string {
	t.Helper()
	path := filepath.Join(dir, "python-"+framework)
	script := "#!/bin/sh\ncase \"$*\" in *find_spec*) echo;; *__version__*) echo 3.12.1; echo " + framework + "; echo 0;; esac\n"
	if framework == "" {
		script = "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n"
	}
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func newWard(t *testing.T) *ward {
	t.Helper()
	home, err := os.MkdirTemp("", "ward") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	w := &ward{t: t, home: home, api: freePort(t)}
	for _, dir := range []string{"model", "data", "empty"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"model/train.py", "data/x"} {
		if err := os.WriteFile(filepath.Join(home, file), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	authority := filepath.Join(home, "a")
	w.runs(func(string) bool {
		_, err := os.Stat(filepath.Join(authority, "sl.sock"))
		return err == nil
	}, "run-authority", "--dir", authority)
	w.runs(func(said string) bool { return strings.Contains(said, "Starting SWARM-API-SERVER") }, "run-sn", "--name=sn-1", "--host-ip=127.0.0.1", "--sentinel", "--found-at-once", "--identity=embedded="+authority, "--state-dir="+filepath.Join(home, "sn"),
		fmt.Sprint("--sn-api-port=", w.api), fmt.Sprint("--sn-p2p-port=", freePort(t)), fmt.Sprint("--sn-fs-port=", freePort(t)))
	w.good = map[string]string{
		"name": "sl-1", "host-ip": "127.0.0.1", "sn-ip": fmt.Sprint("127.0.0.1:", w.api), "sl-fs-port": fmt.Sprint(freePort(t)), "identity": "embedded=" + authority,
		"state-dir": filepath.Join(home, "sl"), "bridge-dir": filepath.Join(home, "b"), "sl-platform": "PYT", "python": python(t, home, "2.4"),
		"model-dir": filepath.Join(home, "model"), "data-dir": filepath.Join(home, "data"), "model-program": "train.py",
	}
	return w
}

// examine runs the doctor with other options than the good ones.
func (w *ward) examine(t *testing.T, command string, other ...string) (int, doctor.Report) {
	t.Helper()
	args := []string{"swarmd", "doctor", command, "-o", "json"}
	for name, value := range w.good {
		if !slices.ContainsFunc(other, func(o string) bool { return strings.HasPrefix(o, "--"+name+"=") || o == "--no-"+name }) {
			args = append(args, "--"+name+"="+value)
		}
	}
	for _, o := range other {
		if !strings.HasPrefix(o, "--no-") {
			args = append(args, o)
		}
	}
	var out bytes.Buffer
	code := daemon.Main(args, w.env(t.Context(), &out))
	var report doctor.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out.String())
	}
	return code, report
}

func TestDoctor(t *testing.T) {
	w := newWard(t)
	t.Run("an SL that could join", w.couldJoin)
	t.Run("red lines", w.redLines)
	t.Run("an SN", w.asSN)
	t.Run("a SWOP", w.asSWOP)
}

func (w *ward) couldJoin(t *testing.T) {
	code, report := w.examine(t, "run-sl")
	if code != 0 || !report.OK {
		t.Errorf("exit code %d: %+v", code, report)
	}
	var checks []string
	for _, row := range report.Rows {
		checks = append(checks, row.Check)
		if row.Status == doctor.Failed {
			t.Errorf("%+v", row)
		}
	}
	for _, want := range []string{"options", "port", "state directory", "identity", "sn", "clock", "dial back", "program", "data", "python", "gpu", "package", "memory", "disk"} {
		if !slices.Contains(checks, want) {
			t.Errorf("no row %s among %v", want, checks)
		}
	}
	for _, left := range []string{"sl", "b"} {
		if _, err := os.Stat(filepath.Join(w.home, left)); err == nil {
			t.Errorf("the doctor has made %s", left)
		}
	}
	if code, report := w.examine(t, "run-sl", "--model-bytes=1000"); code != 0 {
		t.Errorf("a small model: %+v", report)
	}
}

// redLines has each line red by one wrong option, with its remedy, and no other.
func (w *ward) redLines(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	busy := taken.Addr().(*net.TCPAddr).Port
	monitored := filepath.Join(w.home, "m")
	monitor(t, monitored, "sl-1")
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(w.home, "no-engine.sock"))
	for _, c := range []struct {
		check, detail, remedy string
		other                 []string
	}{
		{"options", "--name", "", []string{"--name=a b"}},
		{"options", "unsupported platform", "PYT or TF", []string{"--sl-platform=JAX"}},
		{"name", "does not resolve", "/etc/hosts", []string{"--host-ip=no-such-host.invalid"}},
		{"port", fmt.Sprintf("port %d on 127.0.0.1 is in use by", busy), "--sl-fs-port", []string{fmt.Sprint("--sl-fs-port=", busy)}},
		{"state directory", "belongs to node sn-1 (role sn)", "--state-dir", []string{"--state-dir=" + filepath.Join(w.home, "sn")}},
		{"state directory", "in use by a swarmd", "--state-dir", []string{"--state-dir=" + monitored}},
		{"state directory", "is no directory", "--state-dir", []string{"--state-dir=" + filepath.Join(w.home, "data", "x", "y")}},
		{"identity", "there is no socket", "run-authority", []string{"--identity=embedded=" + filepath.Join(w.home, "none")}},
		{"identity", "gives no SVID for", "entry create", []string{"--identity=spiffe", "--socket-path=" + filepath.Join(w.home, "a", "sn.sock")}},
		{"sn", "nothing listens", "start that node", []string{fmt.Sprint("--sn-ip=127.0.0.1:", freePort(t))}},
		{"sn", "swarm", "--swarm-id", []string{"--swarm-id=" + strings.Repeat("0", 32)}},
		{"trust domain", "no CA certificate", "federate", []string{"--trust-domain=elsewhere.example"}},
		{"program", "does not exist", "--model-program", []string{"--model-program=other.py"}},
		{"program", "data directory", "--data-dir", []string{"--data-dir=" + filepath.Join(w.home, "nowhere")}},
		{"python", "No module named 'torch'", "--python", []string{"--python=" + python(t, w.home, "")}},
		{"gpu", "sees none", "leave out --gpu", []string{"--gpu=all"}},
		{"memory", "do not fit", "--bridge-dir", []string{"--model-bytes=1000000000000000"}},
		{"memory", "--max-model", "raise", []string{"--model-bytes=1000000", "--max-model=1000"}},
		{"engine", "container engine", "", []string{"--ml-runtime=docker", "--no-python"}},
	} {
		t.Run(c.check+" "+c.detail, func(t *testing.T) {
			code, report := w.examine(t, "run-sl", c.other...)
			if code != 1 || report.OK {
				t.Errorf("exit code %d", code)
			}
			found := false
			for _, row := range report.Rows {
				red := row.Status == doctor.Failed
				if red && row.Remedy == "" {
					t.Errorf("no remedy: %+v", row)
				}
				if red && row.Check == c.check && strings.Contains(row.Detail, c.detail) && strings.Contains(row.Remedy, c.remedy) {
					found = true
				} else if red && row.Check != c.check && row.Check != "disk" && row.Check != "swarm" { // the one follows memory
					t.Errorf("another red row: %+v", row)
				}
			}
			if !found {
				t.Errorf("no such row in %+v", report.Rows)
			}
		})
	}
}

func TestDoctorSaysAllOptionsAtOnce(t *testing.T) {
	w := &ward{t: t, home: t.TempDir()}
	code, report := w.examine(t, "run-sl", "--log-level=loud", "--sl-platform=JAX", "-e=BAD", "--allow-peer=spiffe://x/y", "--identity=embedded")
	failed := 0
	for _, row := range report.Rows {
		if row.Status == doctor.Failed && row.Check == "options" && row.Remedy != "" {
			failed++
		}
	}
	if code != 1 || failed != 7 { // and --host-ip, --sn-ip, --model-program
		t.Errorf("exit code %d, %d rows: %+v", code, failed, report.Rows)
	}
}

func (w *ward) asSN(t *testing.T) {
	authority := w.good["identity"]
	w.good = nil
	sn := []string{
		"--name=sn-2", "--host-ip=127.0.0.1", "--identity=" + authority, "--state-dir=" + filepath.Join(w.home, "sn2"),
		fmt.Sprint("--sn-api-port=", freePort(t)), fmt.Sprint("--sn-p2p-port=", freePort(t)), fmt.Sprint("--sn-fs-port=", freePort(t)),
	}
	row := func(report doctor.Report, check string) doctor.Row {
		for _, r := range report.Rows {
			if r.Check == check {
				return r
			}
		}
		return doctor.Row{}
	}
	code, report := w.examine(t, "run-sn", append(sn, "--sentinel")...)
	if r := row(report, "sn"); code != 0 || r.Status != doctor.Warning || !strings.Contains(r.Detail, "NEW swarm") {
		t.Errorf("a Sentinel: exit code %d, %+v", code, report.Rows)
	}
	code, report = w.examine(t, "run-sn", append(sn, "--sentinel-ip=127.0.0.1", fmt.Sprint("--join=127.0.0.1:", w.api))...)
	if r := row(report, "sn"); code != 0 || r.Status != doctor.OK || !strings.Contains(r.Detail, "of swarm ") {
		t.Errorf("one that joins: exit code %d, %+v", code, report.Rows)
	}
}

// asSWOP looks at a host of tasks: without its default port it goes on, without one that was named, or with a bad policy, it does not.
func (w *ward) asSWOP(t *testing.T) {
	profile := strings.NewReplacer("HOST", "127.0.0.1", "31000", fmt.Sprint(w.api), "POLICY", "null").Replace(daemon.SWOPProfile)
	if err := errors.Join(os.WriteFile(filepath.Join(w.home, "p.yaml"), []byte(profile), 0o600), os.WriteFile(filepath.Join(w.home, "bad.yaml"), []byte("sentence: x\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if ln, err := net.Listen("tcp", "127.0.0.1:30308"); err == nil { // else another process has it
		defer ln.Close()
	}
	taken := "--swop-fs-port=" + fmt.Sprint(busy.Addr().(*net.TCPAddr).Port)
	write := func(name, old, with string) string {
		if err := os.WriteFile(filepath.Join(w.home, name), []byte(strings.Replace(profile, old, with, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return "--profile-file-name=" + name
	}
	for name, tt := range map[string]struct {
		more   []string
		code   int
		check  string
		status doctor.Status
		detail string
	}{
		"that could join": {nil, 0, "sn", doctor.OK, "of swarm "},
		"default taken":   {nil, 0, "port", doctor.Warning, "logs will go through SNs: port 30308 on 127.0.0.1 is in use by"},
		"without a port":  {[]string{"--swop-fs-port=0"}, 0, "port", doctor.Skipped, "logs go through SNs"},
		"with a port":     {[]string{fmt.Sprint("--swop-fs-port=", freePort(t))}, 0, "port", doctor.OK, "is free"},
		"taken":           {[]string{taken}, 1, "port", doctor.Failed, "is in use by"},
		"asks":            {[]string{"--policy=ask"}, 0, "policy", doctor.OK, "asks about every task"},
		"bad policy":      {[]string{"--policy=" + filepath.Join(w.home, "bad.yaml")}, 1, "policy", doctor.Failed, "bad.yaml:1"},
		"good profile":    {nil, 0, "profile", doctor.OK, "p.yaml is read as it stands there"},
		"odd profile":     {[]string{write("odd.yaml", "network: n\n", "network: bridge\n")}, 0, "profile", doctor.Warning, "odd.yaml:"},
		"bad profile":     {[]string{write("bad-p.yaml", "groupname", "grpname")}, 1, "profile", doctor.Failed, "bad-p.yaml:"},
		"no profile":      {[]string{"--profile-file-name=none.yaml"}, 1, "options", doctor.Failed, "does not exist"},
	} {
		code, report := w.examine(t, "run-swop", append([]string{
			"--name=h-0", "--host-ip=127.0.0.1", "--identity=embedded=" + filepath.Join(w.home, "a"), "--state-dir=" + filepath.Join(w.home, "swop"), "--usr-dir=" + w.home, "--profile-file-name=p.yaml",
		}, tt.more...)...)
		i := slices.IndexFunc(report.Rows, func(r doctor.Row) bool { return r.Check == tt.check })
		if code != tt.code || i < 0 || report.Rows[i].Status != tt.status || !strings.Contains(report.Rows[i].Detail, tt.detail) {
			t.Errorf("%s: exit code %d, %+v", name, code, report.Rows)
		}
	}
	if _, err := os.Stat(filepath.Join(w.home, "swop")); err == nil {
		t.Error("the doctor has made a state directory")
	}
}

func TestDoctorAsText(t *testing.T) {
	w := &ward{t: t, home: t.TempDir()}
	for want, args := range map[string][]string{
		"FAIL  options":             {"doctor", "run-sl"},
		"run-sn or run-swop":        {"doctor", "run-swci"},
		"swarmd doctor run-sl":      {"doctor"},
		"want table or json":        {"doctor", "run-sl", "-o", "yaml"},
		"did you mean --host-ip?":   {"doctor", "run-sn", "--hostip=1"},
		"-> give the address of an": {"doctor", "run-sl", "--host-ip=127.0.0.1"},
	} {
		var out bytes.Buffer
		if code := daemon.Main(append([]string{"swarmd"}, args...), w.env(t.Context(), &out)); code != 1 || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%v: exit code %d, %s", args, code, out.String())
		}
	}
}
