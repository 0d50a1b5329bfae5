package health_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/health"
)

// open starts a monitor of a short directory, which ends with the test.
func open(t *testing.T, dir string) *health.Monitor {
	t.Helper()
	m, err := health.Open(t.Context(), health.Config{
		Name: "sn-0", Role: identity.RoleSN, StateDir: dir, Awaits: "Workload API at /run/agent.sock", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// stateDir is a directory as a node's, its path short enough for a socket.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "health")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func valid() identity.Status {
	id, err := identity.ParseIDString("spiffe://swarm.learning/swarm/sn/sn-0")
	if err != nil {
		panic(err)
	}
	now := time.Now()
	return identity.Status{Origin: "files a.pem", ID: id, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour), Domains: []string{"swarm.learning"}}
}

func read(t *testing.T, dir string) health.Report {
	t.Helper()
	r, err := health.Read(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMonitorServesFromBeforeTheFirstIdentity(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	dir := stateDir(t)
	m := open(t, dir)
	if r := read(t, dir); r.Healthy || !strings.Contains(r.Reason, "waits for one from Workload API at /run/agent.sock") || r.Name != "sn-0" || r.Role != "sn" || r.Ready || r.PID != os.Getpid() {
		t.Errorf("without an identity: %+v", r)
	}
	m.Identity(valid)
	if r := read(t, dir); r.Healthy || !strings.Contains(r.Reason, "no raft leader") {
		t.Errorf("unseen: %+v", r)
	}
	m.Seen()
	m.Ready()
	r := read(t, dir)
	if !r.Healthy || !r.Ready || r.Until == nil || r.LeaderSeen == nil || r.Identity.SPIFFEID != "spiffe://swarm.learning/swarm/sn/sn-0" || r.Identity.Source != "files a.pem" || len(r.Identity.TrustDomains) != 1 {
		t.Errorf("seen: %+v", r)
	}
	m.Leader(func() time.Time { return time.Now().Add(-2 * time.Minute) })
	if r := read(t, dir); r.Healthy || !strings.Contains(r.Verdict().Text(), "for 2 minutes; a majority") {
		t.Errorf("a leader that fell silent: %+v", r)
	}
	m.Leader(time.Now)
	lacks := errors.New("3 of 5 records are here")
	m.Ledger(func() error { return lacks })
	if r := read(t, dir); r.Healthy || !strings.Contains(r.Reason, lacks.Error()) || !strings.Contains(r.Remedy, "another SN runs") || r.Until != nil {
		t.Errorf("a ledger that is not whole: %+v", r)
	}
	lacks = nil
	if r := read(t, dir); !r.Healthy {
		t.Errorf("a ledger that is whole again: %+v", r)
	}
	info, err := os.Stat(filepath.Join(dir, health.SocketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v %v", info, err)
	}
}

func TestSocketSpeaksPlainHTTP(t *testing.T) {
	dir := stateDir(t)
	m := open(t, dir)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(dir, health.SocketName))
	}}}
	for _, want := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/health", http.StatusServiceUnavailable},
		{http.MethodPost, "/health", http.StatusMethodNotAllowed},
		{http.MethodGet, "/", http.StatusNotFound},
		{http.MethodGet, "/health", http.StatusOK},
	} {
		if want.status == http.StatusOK {
			m.Identity(valid)
			m.Seen()
		}
		req, err := http.NewRequestWithContext(t.Context(), want.method, "http://swarmd"+want.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if want.path == "/health" && want.method == http.MethodGet {
			if err := json.NewDecoder(res.Body).Decode(&body); err != nil || body["healthy"] != (want.status == http.StatusOK) {
				t.Errorf("%v: %v %v", want, body, err)
			}
		}
		_ = res.Body.Close()
		if res.StatusCode != want.status {
			t.Errorf("%v: %s", want, res.Status)
		}
	}
}

func TestReadWithoutDaemon(t *testing.T) {
	dir := stateDir(t)
	long := filepath.Join(dir, strings.Repeat("x", 120))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]string{"empty directory": dir, "no directory": filepath.Join(dir, "none"), "long path": long, "long path that is not there": long + "/none"} {
		if r, err := health.Read(t.Context(), d); !errors.Is(err, health.ErrNoDaemon) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	// A socket that a killed daemon left behind.
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, health.SocketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	_ = ln.Close()
	if _, err := health.Read(t.Context(), dir); !errors.Is(err, health.ErrNoDaemon) {
		t.Errorf("stale socket: %v", err)
	}
	open(t, dir)
	if r := read(t, dir); r.Name != "sn-0" {
		t.Errorf("the next daemon takes the stale socket's place: %+v", r)
	}
}

func TestLongStateDirectory(t *testing.T) {
	dir := filepath.Join(stateDir(t), strings.Repeat("x", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path, err := health.SocketPath(dir)
	if err != nil || len(path) > 107 || strings.HasPrefix(path, dir) {
		t.Fatalf("socket path %q, %v", path, err)
	}
	open(t, dir)
	if r := read(t, dir); r.Name != "sn-0" {
		t.Errorf("got %+v", r)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm()&0o022 != 0 {
		t.Errorf("runtime directory: %v %v", info, err)
	}
}

// systemd is a fake that collects what it is told.
func systemd(t *testing.T, watchdog time.Duration) chan string {
	t.Helper()
	path := filepath.Join(stateDir(t), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 256)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			select {
			case told <- string(buf[:n]):
			default:
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	t.Setenv("NOTIFY_SOCKET", path)
	if watchdog > 0 {
		t.Setenv("WATCHDOG_USEC", fmt.Sprint(watchdog.Microseconds()))
		t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	}
	return told
}

func wants(t *testing.T, told chan string, texts ...string) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case msg := <-told:
			missing := false
			for _, text := range texts {
				missing = missing || !strings.Contains(msg, text)
			}
			if !missing {
				return
			}
		case <-late:
			t.Fatalf("systemd is not told %q", texts)
		}
	}
}

func TestSystemdIsTold(t *testing.T) {
	told := systemd(t, 100*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	m, err := health.Open(ctx, health.Config{Name: "sl-0", Role: identity.RoleSL, StateDir: stateDir(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	wants(t, told, "STATUS=unhealthy: it has no identity yet")
	wants(t, told, "WATCHDOG=1")
	m.Identity(valid)
	wants(t, told, "STATUS=unhealthy: no raft leader")
	m.Seen()
	m.Ready()
	wants(t, told, "READY=1", "STATUS=healthy until 20")
	m.Leader(func() time.Time { return time.Now().Add(-time.Hour) })
	wants(t, told, "STATUS=unhealthy: no raft leader has heard of it for 60 minutes")
	wants(t, told, "WATCHDOG=1") // an unhealthy node is not to be restarted
	cancel()
	wants(t, told, "STOPPING=1")
}

// TestWatchdogStarvesWithAStandstill: a source whose lock nobody gives back keeps the process from feeding the watchdog.
func TestWatchdogStarvesWithAStandstill(t *testing.T) {
	told := systemd(t, 100*time.Millisecond)
	m := open(t, stateDir(t))
	wants(t, told, "WATCHDOG=1")
	entered, release := make(chan struct{}, 16), make(chan struct{})
	m.Identity(func() identity.Status {
		entered <- struct{}{}
		<-release
		return valid()
	})
	defer close(release)
	<-entered // watch stands still from here on
	for len(told) > 0 {
		<-told
	}
	select {
	case msg := <-told:
		// One that was on its way when it stood still is no feeding.
		if strings.Contains(msg, "WATCHDOG=1") {
			select {
			case msg := <-told:
				t.Errorf("systemd is told %q by a process that stands still", msg)
			case <-time.After(300 * time.Millisecond):
			}
		}
	case <-time.After(300 * time.Millisecond):
	}
}

// TestSystemdIsToldOneLine has the source of the identity complain in words that systemd would take for commands.
func TestSystemdIsToldOneLine(t *testing.T) {
	told := systemd(t, 0)
	m := open(t, stateDir(t))
	m.Identity(func() identity.Status {
		st := valid()
		st.NotBefore, st.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		st.Problem = "rpc failed\nMAINPID=1\nWATCHDOG=trigger"
		return st
	})
	m.Ready()
	late := time.After(20 * time.Second)
	for {
		select {
		case msg := <-told:
			if strings.Contains(msg, "\nMAINPID=") || strings.Contains(msg, "\nWATCHDOG=") {
				t.Fatalf("systemd is told %q", msg)
			}
			if strings.Contains(msg, "rpc failed MAINPID=1") {
				return
			}
		case <-late:
			t.Fatal("systemd is not told why")
		}
	}
}
