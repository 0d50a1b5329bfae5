package health_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/health"
)

// TestProfilesAreTheOwners: the socket that only its owner may open has the process's profiles.
func TestProfilesAreTheOwners(t *testing.T) {
	dir := stateDir(t)
	open(t, dir)
	path := filepath.Join(dir, health.SocketName)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("socket has mode %v, %v", info.Mode(), err)
	}
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer c.CloseIdleConnections()
	for path, want := range map[string]string{
		"":                    "goroutine",
		"heap":                "\x1f\x8b",
		"goroutine?debug=1":   "TestProfilesAreTheOwners",
		"profile?seconds=1":   "\x1f\x8b",
		"trace?seconds=0.1":   "go 1.",
		"cmdline":             "Unknown profile",
		"../../etc/passwd":    "404 page not found",
		"heap?seconds=banana": "invalid value",
	} {
		if status, got := get(t, c, "http://swarmd/debug/pprof/"+path); !strings.Contains(got, want) {
			t.Errorf("%s: status %d and %.200q, want %q in it", path, status, got, want)
		}
	}
	if status, _ := get(t, c, "http://swarmd/health"); status != http.StatusServiceUnavailable {
		t.Errorf("beside profiles, health answers with status %d", status)
	}
}

// TestAProfileMayTakeLongerThanOtherAnswers: a CPU profile ends when it was told to, whatever bounds the others.
func TestAProfileMayTakeLongerThanOtherAnswers(t *testing.T) {
	s := httptest.NewUnstartedServer(health.Handler(func() health.Report { return health.Report{} }))
	s.Config.WriteTimeout = 100 * time.Millisecond
	s.Start()
	defer s.Close()
	if status, got := get(t, s.Client(), s.URL+"/debug/pprof/profile?seconds=1"); status != http.StatusOK || !strings.HasPrefix(got, "\x1f\x8b") {
		t.Errorf("status %d and %.200q, want a profile", status, got)
	}
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body bytes.Buffer
	if _, err := io.Copy(&body, res.Body); err != nil {
		t.Errorf("%s: %v", url, err)
	}
	return res.StatusCode, body.String()
}
