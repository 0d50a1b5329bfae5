package embedded_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
)

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "auth")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start runs an authority until the returned function is called.
func start(t *testing.T, cfg embedded.Config) func() {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	a, err := embedded.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	select {
	case <-a.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func source(t *testing.T, dir, socket, name string) (*identity.WorkloadSource, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	return identity.OpenSource(ctx, identity.SourceConfig{
		Socket: embedded.SocketPath(dir, socket), Role: identity.RoleSL, Name: name, Log: slog.New(slog.DiscardHandler),
	})
}

func TestAuthorityRestartsAndIsAlone(t *testing.T) {
	dir := shortDir(t)
	stop := start(t, embedded.Config{Dir: dir})
	second, err := embedded.New(embedded.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already serves") {
		t.Errorf("second authority: %v", err)
	}
	src, err := source(t, dir, "sl", "a")
	if err != nil {
		t.Fatal(err)
	}
	first, err := src.GetX509SVID()
	if err != nil {
		t.Fatal(err)
	}
	_ = src.Close()
	stop()
	if left, _ := filepath.Glob(filepath.Join(dir, "*.sock")); len(left) > 0 {
		t.Errorf("sockets left: %v", left)
	}
	defer start(t, embedded.Config{Dir: dir})()
	if src, err = source(t, dir, "sl", "a"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	domains, _ := identity.NewDomains(first.ID.TrustDomain())
	if _, _, err := identity.VerifySVID(identity.RawChain(first), src, domains, identity.RoleSL); err != nil {
		t.Errorf("the CA changed with the restart: %v", err)
	}
	sig, err := identity.SignWithSVID(first, []byte("m"))
	if err != nil {
		t.Fatal(err)
	}
	if identity.VerifySVIDSignature(first.Certificates[0], []byte("m"), sig) != nil || identity.VerifySVIDSignature(first.Certificates[0], []byte("n"), sig) == nil {
		t.Error("SVID signatures are wrong")
	}
}

func TestOwnNameIsPreferredAndWrongRolesAreNot(t *testing.T) {
	dir := shortDir(t)
	defer start(t, embedded.Config{Dir: dir, Paths: map[string][]string{
		"both": {"/swarm/sl", "/swarm/sl/a"}, "other": {"/swarm/sl/b"},
	}})()
	for _, tt := range []struct{ socket, name, want string }{
		{"both", "a", "spiffe://swarm.learning/swarm/sl/a"},
		{"both", "c", "spiffe://swarm.learning/swarm/sl"},
		{"other", "a", ""},
		{"sn", "a", ""},
	} {
		src, err := source(t, dir, tt.socket, tt.name)
		if tt.want == "" {
			if err == nil || !strings.Contains(err.Error(), "registration entries") {
				t.Errorf("%s: %v", tt.socket, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := src.ID().String(); got != tt.want {
			t.Errorf("%s for %s: %s, want %s", tt.socket, tt.name, got, tt.want)
		}
		_ = src.Close()
	}
}

// TestStatus: what was issued is counted by socket, and who has a stream.
func TestStatus(t *testing.T) {
	dir := shortDir(t)
	a, err := embedded.New(embedded.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if s := a.Status(); !s.CANotAfter.IsZero() || len(s.Sockets) == 0 {
		t.Errorf("before it runs: %+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	<-a.Ready()
	src, err := source(t, dir, "sl", "a")
	if err != nil {
		t.Fatal(err)
	}
	s := a.Status()
	if s.Sockets["sl"] != (embedded.Socket{Issued: 1, Workloads: 1}) || s.Sockets["sn"] != (embedded.Socket{}) || time.Until(s.CANotAfter) < 24*time.Hour {
		t.Errorf("with one SL: %+v", s)
	}
	_ = src.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := a.Status(); s.Sockets["sl"] != (embedded.Socket{Issued: 1}) {
		t.Errorf("after it: %+v", s)
	}
}

func TestHeaderIsRequired(t *testing.T) {
	dir := shortDir(t)
	defer start(t, embedded.Config{Dir: dir})()
	conn, err := grpc.NewClient("unix://"+embedded.SocketPath(dir, "sl"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := workload.NewSpiffeWorkloadAPIClient(conn).FetchX509SVID(t.Context(), &workload.X509SVIDRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("call without header: %v", err)
	}
}

func TestUnsafePlaces(t *testing.T) {
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	a, err := embedded.New(embedded.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "chmod 0700") {
		t.Errorf("group-writable directory: %v", err)
	}
	if _, err := embedded.New(embedded.Config{Dir: "/" + strings.Repeat("x", 110)}); err == nil || !strings.Contains(err.Error(), "107") {
		t.Errorf("long path: %v", err)
	}
}
