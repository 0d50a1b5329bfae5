package metrics_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/metrics"
)

// free is a loopback address with a port that nobody has.
func free(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

var expires = time.Unix(1_900_000_000, 0)

func config(at string) metrics.Config {
	return metrics.Config{
		Address: at, Name: "sn-1", Role: identity.RoleSN, Listen: new(net.ListenConfig).Listen, Log: slog.New(slog.DiscardHandler), Traffic: metrics.NewTraffic(),
		Health: func() health.Report {
			return health.Report{Ready: true, Healthy: true, LeaderSeen: &expires, Identity: health.Identity{NotBefore: &expires, NotAfter: &expires}}
		},
	}
}

func open(t *testing.T) (*metrics.Server, string) {
	t.Helper()
	at := free(t)
	s, err := metrics.Open(t.Context(), config(at))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, at
}

// ask makes one request and returns its status, type and body.
func ask(t *testing.T, method, url, host, accept string) (code int, kind, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	if host != "" {
		req.Host = host
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Content-Type"), string(b)
}

// read returns all that a server tells.
func read(t *testing.T, at string) string {
	t.Helper()
	code, _, body := ask(t, "GET", "http://"+at+metrics.Path, "", "text/plain")
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, body)
	}
	return body
}

// has wants lines in what a server tells.
func has(t *testing.T, body string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains("\n"+body, "\n"+l+"\n") {
			t.Errorf("no line %q in\n%s", l, ours(body))
		}
	}
}

// ours are the lines of swarmd's own metrics.
func ours(body string) string {
	var b strings.Builder
	for l := range strings.Lines(body) {
		if strings.HasPrefix(l, "swarmd_") {
			b.WriteString(l)
		}
	}
	return b.String()
}

// TestOpenMetrics: who asks for OpenMetrics gets it; others get the older text.
func TestOpenMetrics(t *testing.T) {
	_, at := open(t)
	_, kind, body := ask(t, "GET", "http://"+at+metrics.Path, "", "application/openmetrics-text; version=1.0.0")
	if !strings.HasPrefix(kind, "application/openmetrics-text") || !strings.HasSuffix(body, "# EOF\n") {
		t.Errorf("%s:\n%s", kind, body)
	}
	_, kind, body = ask(t, "GET", "http://"+at+metrics.Path, "", "text/plain")
	if !strings.HasPrefix(kind, "text/plain") {
		t.Error(kind)
	}
	has(t, body, `swarmd_node_info{name="sn-1",role="sn"} 1`, "swarmd_node_ready 1", "swarmd_node_healthy 1", "swarmd_svid_expiry_timestamp_seconds 1.9e+09")
	for _, of := range []string{"swarmd_build_info{", "go_goroutines ", "process_cpu_seconds_total "} {
		if !strings.Contains(body, "\n"+of) {
			t.Errorf("nothing of %s", of)
		}
	}
}

// TestOnlyMetricsAreServed: nothing else, to nobody who comes by a name that was made to lead here, and no endless request.
func TestOnlyMetricsAreServed(t *testing.T) {
	_, at := open(t)
	_, port, _ := net.SplitHostPort(at)
	for _, c := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "/metrics", "", 200},
		{"HEAD", "/metrics", "", 200},
		{"GET", "/metrics", "localhost:" + port, 200},
		{"GET", "/metrics", "[::1]:9464", 200},
		{"GET", "/metrics", "evil.example", 403},
		{"GET", "/metrics", "evil.example:" + port, 403},
		{"POST", "/metrics", "", 404},
		{"GET", "/", "", 404},
		{"GET", "/debug/pprof/", "", 404},
		{"GET", "/metrics/x", "", 404},
	} {
		if code, _, body := ask(t, c.method, "http://"+at+c.path, c.host, ""); code != c.want {
			t.Errorf("%s %s for %q: status %d, want %d: %s", c.method, c.path, c.host, code, c.want, body)
		}
	}
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n"); err != nil {
		return // it was cut off already
	}
	if b, _ := io.ReadAll(conn); !strings.HasPrefix(string(b), "HTTP/1.1 431 ") && len(b) > 0 {
		t.Errorf("a header of 64 KiB: %.80s", b)
	}
}

// TestNamesOnLoopback: a listener on all addresses is on loopback too, and one in a container may be published there. Elsewhere names are good.
func TestNamesOnLoopback(t *testing.T) {
	own := ""
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			own = n.IP.String()
		}
	}
	for _, local := range []bool{false, true} {
		_, port, _ := net.SplitHostPort(free(t))
		cfg := config("0.0.0.0:" + port)
		cfg.Local = local
		s, err := metrics.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, c := range []struct {
			at, host string
			want     int
		}{
			{"127.0.0.1", "evil.example:" + port, 403},
			{"127.0.0.1", "", 200},
			{own, "sn.example:" + port, map[bool]int{false: 200, true: 403}[local]},
			{own, "", 200},
		} {
			if c.at == "" {
				continue // this machine has no network
			}
			if code, _, body := ask(t, "GET", "http://"+c.at+":"+port+metrics.Path, c.host, ""); code != c.want {
				t.Errorf("local: %v; at %s for %q: status %d, want %d: %s", local, c.at, c.host, code, c.want, body)
			}
		}
	}
}

// TestNoAddressNoServer: a node that nobody asked for metrics has none, and goes on as if there were none.
func TestNoAddressNoServer(t *testing.T) {
	s, err := metrics.Open(t.Context(), config(""))
	if s != nil || err != nil {
		t.Fatal(s, err)
	}
	if s.Committed() != nil || s.Members(nil) != nil || s.Exchange(nil) != nil || s.Program(nil, nil) != nil || s.API(nil) != nil {
		t.Error("something is measured")
	}
	s.Raft(nil, nil)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestBadAddresses end a node before it does anything, with what to do.
func TestBadAddresses(t *testing.T) {
	_, at := open(t)
	for given, want := range map[string]string{
		at:               "give another port with --metrics",
		"9464":           "--metrics 9464: want HOST:PORT, such as 127.0.0.1:9464",
		"127.0.0.1:":     "want HOST:PORT",
		"127.0.0.1:0":    "want HOST:PORT",
		"x y:1":          "want HOST:PORT",
		"192.0.2.1:9464": "give another port with --metrics",
	} {
		if s, err := metrics.Open(t.Context(), config(given)); s != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
	}
	if rows := metrics.Look(t.Context(), at); len(rows) != 1 || !strings.Contains(rows[0].Detail, "in use") {
		t.Errorf("%+v", rows)
	}
	if rows := metrics.Look(context.WithoutCancel(t.Context()), free(t)); len(rows) != 1 || !strings.Contains(rows[0].Detail, "is free for metrics (--metrics)") {
		t.Errorf("%+v", rows)
	}
}

// promtool judges what a server tells as Prometheus' own checker does: names, units, help.
func promtool(t *testing.T, body string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool: apt-get install prometheus")
	}
	cmd := exec.CommandContext(t.Context(), path, "check", "metrics")
	cmd.Stdin = strings.NewReader(body)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
