package spire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

const timeout = 60 * time.Second

// logs keeps lines of a log.
type logs struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{}
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.b.Write(p)
}

func (l *logs) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

// find returns the first line with all of these, "" if there is none.
func (l *logs) find(parts ...string) string {
	for _, line := range l.lines() {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			return line
		}
	}
	return ""
}

func (l *logs) await(t *testing.T, parts ...string) string {
	t.Helper()
	limit := time.After(timeout)
	for {
		if line := l.find(parts...); line != "" {
			return line
		}
		select {
		case <-l.more:
		case <-limit:
			t.Fatalf("no line with %q within %v; lines:\n%s", parts, timeout, strings.Join(l.lines(), "\n"))
		}
	}
}

// server is a RunServer that runs.
type server struct {
	*logs
	binary string
	dir    string
	socket string
	cancel context.CancelFunc
	done   chan error
}

// start runs a server in dir, on loopback and a free port unless args say otherwise. It may or may not become ready.
func start(t *testing.T, cfg spire.ServerConfig, dir string) *server {
	t.Helper()
	s := &server{logs: &logs{more: make(chan struct{}, 1)}, binary: e2etest.Spire(t, "spire-server"), dir: dir, done: make(chan error, 1)}
	s.socket = filepath.Join(dir, "api.sock")
	cfg.Binary, cfg.StateDir = s.binary, dir
	cfg.Log = slog.New(slog.NewTextHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if !slices.Contains(cfg.Args, "-serverPort") {
		cfg.Args = append([]string{"-bindAddress", "127.0.0.1", "-serverPort", strconv.Itoa(spiretest.FreePort(t))}, cfg.Args...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() { s.done <- spire.RunServer(ctx, cfg) }()
	t.Cleanup(func() { s.stop(t) })
	return s
}

// stop ends the server and returns what RunServer returned.
func (s *server) stop(t *testing.T) error {
	t.Helper()
	s.cancel()
	return s.wait(t)
}

func (s *server) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.done:
		s.done <- err // for the next who asks
		return err
	case <-time.After(timeout):
		t.Fatalf("the server does not end; lines:\n%s", strings.Join(s.lines(), "\n"))
		return nil
	}
}

// ready waits until the entries stand.
func (s *server) ready(t *testing.T) *server {
	t.Helper()
	for {
		if s.find("SPIRE server is ready") != "" {
			return s
		}
		select {
		case <-s.more:
		case err := <-s.done:
			s.done <- err
			t.Fatalf("the server ended: %v; lines:\n%s", err, strings.Join(s.lines(), "\n"))
		case <-time.After(timeout):
			t.Fatalf("not ready; lines:\n%s", strings.Join(s.lines(), "\n"))
		}
	}
}

// tool runs the real spire-server's own commands against the server.
func (s *server) tool(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.binary, append(slices.Clone(args), "-socketPath", s.socket)...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("spire-server %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// entry is an entry as SPIRE's own program shows it.
type entry struct {
	ID            string
	SPIFFEID      string
	ParentID      string
	Selectors     string
	DNS           string
	FederatesWith string
	TTL           int
	Revision      string
}

// entries asks SPIRE's own program. Entries that alias agents are left out unless all are wanted.
func (s *server) entries(t *testing.T, all bool) map[string]entry {
	t.Helper()
	type spiffeID struct {
		TrustDomain string `json:"trust_domain"`
		Path        string `json:"path"`
	}
	var shown struct {
		Entries []struct {
			ID        string   `json:"id"`
			SPIFFEID  spiffeID `json:"spiffe_id"`
			ParentID  spiffeID `json:"parent_id"`
			Selectors []struct {
				Type  string `json:"type"`
				Value string `json:"value"`
			} `json:"selectors"`
			DNS           []string `json:"dns_names"`
			FederatesWith []string `json:"federates_with"`
			TTL           int      `json:"x509_svid_ttl"`
			Revision      string   `json:"revision_number"`
		} `json:"entries"`
	}
	if err := json.Unmarshal(s.tool(t, nil, "entry", "show", "-output", "json"), &shown); err != nil {
		t.Fatal(err)
	}
	found := map[string]entry{}
	for _, e := range shown.Entries {
		var selectors []string
		for _, x := range e.Selectors {
			selectors = append(selectors, x.Type+":"+x.Value)
		}
		if !all && strings.HasPrefix(e.ParentID.Path, "/spire/") {
			continue
		}
		slices.Sort(e.FederatesWith)
		found[e.ID] = entry{
			e.ID, "spiffe://" + e.SPIFFEID.TrustDomain + e.SPIFFEID.Path, "spiffe://" + e.ParentID.TrustDomain + e.ParentID.Path,
			strings.Join(selectors, " "), strings.Join(e.DNS, " "), strings.Join(e.FederatesWith, " "), e.TTL, e.Revision,
		}
	}
	return found
}
