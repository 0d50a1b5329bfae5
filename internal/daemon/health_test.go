package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/daemon"
	"github.com/swarmd/swarmd/internal/health"
)

// swarmd runs one command line in process.
func swarmd(t *testing.T, home string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = daemon.Main(append([]string{"swarmd"}, args...), daemon.Env{
		Stdout: &out, Stderr: &errs,
		Getenv:  func(k string) string { return map[string]string{"HOME": home, "XDG_STATE_HOME": home}[k] },
		Signals: func(context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
	})
	return code, out.String(), errs.String()
}

// monitor is a node that only tells its health.
func monitor(t *testing.T, dir, name string) *health.Monitor {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	m, err := health.Open(t.Context(), health.Config{Name: name, Role: identity.RoleSL, StateDir: dir, Awaits: "files", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func TestHealthCommand(t *testing.T) {
	home, err := os.MkdirTemp("", "health")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	dir := filepath.Join(home, "node")

	code, out, errs := swarmd(t, home, "health", "--state-dir", dir)
	if code != 1 || out != "" || !strings.Contains(errs, "no swarmd runs with state directory "+dir) {
		t.Errorf("no daemon: %d %q %q", code, out, errs)
	}
	if code, _, errs := swarmd(t, home, "health", "-o", "yaml", "--state-dir", dir); code != 1 || !strings.Contains(errs, "text or json") {
		t.Errorf("unknown form: %d %q", code, errs)
	}
	m := monitor(t, dir, "sl-0")
	code, out, errs = swarmd(t, home, "health", "--state-dir", dir)
	if code != 1 || errs != "" || !strings.HasPrefix(out, "unhealthy: it has no identity yet and waits for one from files; ") || strings.Count(out, "\n") != 1 {
		t.Errorf("no identity: %d %q %q", code, out, errs)
	}
	end := time.Now().Add(2 * time.Hour)
	m.Identity(func() identity.Status { return identity.Status{NotBefore: end.Add(-3 * time.Hour), NotAfter: end} })
	m.Seen()
	code, out, errs = swarmd(t, home, "health", "--state-dir", dir)
	if want := "healthy until " + end.Add(-time.Hour).UTC().Format(time.RFC3339) + "\n"; code != 0 || out != want || errs != "" {
		t.Errorf("healthy: %d %q %q, want %q", code, out, errs, want)
	}
	file := filepath.Join(home, "swarmd.yaml")
	if err := os.WriteFile(file, []byte("host-ip: 10.0.0.1\nsn-ip: 10.0.0.2\nstate-dir: "+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs = swarmd(t, home, "health", "--config-file", file); code != 0 || !strings.HasPrefix(out, "healthy until ") {
		t.Errorf("by the node's file: %d %q %q", code, out, errs)
	}
	code, out, _ = swarmd(t, home, "health", "-o", "json", "--state-dir="+dir)
	var r health.Report
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || !r.Healthy || r.Name != "sl-0" || r.Role != "sl" || r.PID != os.Getpid() {
		t.Errorf("as JSON: %d %q %v", code, out, err)
	}
}

func TestHealthFindsTheNode(t *testing.T) {
	home := t.TempDir()
	find := func(dir, name, want string) {
		t.Helper()
		got, err := daemon.HealthDir(t.Context(), home, dir, name)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || err == nil && got != want {
			t.Errorf("--state-dir %q, --name %q: %q, want %q", dir, name, got, want)
		}
	}
	one, two := filepath.Join(home, "sl-0"), filepath.Join(home, "sl-1")
	find("", "", "no swarmd runs with a state directory in "+home)
	if err := os.Mkdir(two, 0o700); err != nil { // a node's that does not run
		t.Fatal(err)
	}
	monitor(t, one, "sl-0")
	find("", "", one)
	monitor(t, two, "sl-1")
	find("", "", "several nodes run on this machine: choose one with --state-dir: "+one+", "+two)
	find("", "sl-1", two)
	find("/x", "sl-1", "/x")
}
