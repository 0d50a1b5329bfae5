// Package spiretest runs real SPIRE servers and agents for tests: on free ports of 127.0.0.1, with their files in a short
// folder in /tmp, and with no process left when the test ends. It speaks to the server's API itself, so that it does not
// trust what it tests. A test without the programs is skipped; `make spire` builds them.
package spiretest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/spire-api-sdk/proto/spire/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// Options bend a server. The zero value is a sound one.
type Options struct {
	TrustDomain    string        // default "swarm.learning"
	SVIDTTL        time.Duration // of workloads; default 1h
	AgentTTL       time.Duration // of agents; default 1h. An agent that was away longer needs a new join token
	CATTL          time.Duration // default 24h. The CA is made new after half of it and used after five sixths
	BundleEndpoint bool          // serve the trust bundle for federation (https_spiffe)
	Upstream       string        // configuration of an UpstreamAuthority: DiskUpstream, SpireUpstream; "" is self-signed
}

// Server is a running spire-server. It ends with its test.
type Server struct {
	TrustDomain string
	Dir         string // short
	Socket      string // of the private API
	Port        int    // of the server API, on 127.0.0.1
	BundlePort  int    // of the bundle endpoint, 0 if there is none

	t      *testing.T
	binary string
	proc   *e2etest.Proc
	conn   *grpc.ClientConn
}

// NewServer starts a server and waits until it serves.
func NewServer(t *testing.T, o Options) *Server {
	t.Helper()
	s := &Server{t: t, TrustDomain: o.TrustDomain, binary: e2etest.Spire(t, "spire-server"), Dir: TempDir(t), Port: FreePort(t)}
	if s.TrustDomain == "" {
		s.TrustDomain = "swarm.learning"
	}
	s.Socket = filepath.Join(s.Dir, "api.sock")
	if o.BundleEndpoint {
		s.BundlePort = FreePort(t)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "server.conf"), []byte(s.conf(o)), 0o600); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix:"+s.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	s.conn = conn
	t.Cleanup(func() { _ = conn.Close() })
	s.Start()
	return s
}

func (s *Server) conf(o Options) string {
	var b strings.Builder
	ttl := func(d, otherwise time.Duration) string {
		if d == 0 {
			d = otherwise
		}
		return d.String()
	}
	// The caches are asked for what is new each second instead of each five, so that tests need not wait.
	fmt.Fprintf(&b, `server {
	bind_address = "127.0.0.1"
	bind_port = "%d"
	socket_path = %q
	trust_domain = %q
	data_dir = %q
	log_level = "DEBUG"
	ca_ttl = %q
	default_x509_svid_ttl = %q
	agent_ttl = %q
	experimental { cache_reload_interval = "1s" }
`, s.Port, s.Socket, s.TrustDomain, s.Dir, ttl(o.CATTL, 24*time.Hour), ttl(o.SVIDTTL, time.Hour), ttl(o.AgentTTL, time.Hour))
	if s.BundlePort != 0 {
		fmt.Fprintf(&b, "\tfederation {\n\t\tbundle_endpoint {\n\t\t\taddress = \"127.0.0.1\"\n\t\t\tport = %d\n\t\t\trefresh_hint = \"1m\"\n\t\t\tprofile \"https_spiffe\" {}\n\t\t}\n\t}\n", s.BundlePort)
	}
	fmt.Fprintf(&b, `}
plugins {
	DataStore "sql" {
		plugin_data {
			database_type = "sqlite3"
			connection_string = %q
		}
	}
	KeyManager "disk" {
		plugin_data { keys_path = %q }
	}
	NodeAttestor "join_token" { plugin_data {} }
	%s
}
`, filepath.Join(s.Dir, "server.sqlite3"), filepath.Join(s.Dir, "keys.json"), o.Upstream)
	return b.String()
}

// DiskUpstream makes a server's CA an intermediate of one whose certificate and key are in PEM files.
func DiskUpstream(cert, key string) string {
	return fmt.Sprintf(`UpstreamAuthority "disk" {
		plugin_data {
			cert_file_path = %q
			key_file_path = %q
		}
	}`, cert, key)
}

// SpireUpstream nests a server in another one: workload is the socket of an agent of root that gives this process an
// entry with Downstream set.
func SpireUpstream(root *Server, workload string) string {
	return fmt.Sprintf(`UpstreamAuthority "spire" {
		plugin_data {
			server_address = "127.0.0.1"
			server_port = %d
			workload_api_socket = %q
		}
	}`, root.Port, workload)
}

// Start starts the server, again after Kill or Stop, with all that it had.
func (s *Server) Start() {
	s.t.Helper()
	s.proc = e2etest.Start(s.t, "spire-server "+s.TrustDomain, s.Dir, nil, s.binary, "run", "-config", filepath.Join(s.Dir, "server.conf"))
	health := grpc_health_v1.NewHealthClient(s.conn)
	await(s.t, s.proc, "serving", func(ctx context.Context) bool {
		res, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		return err == nil && res.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	})
}

// Kill ends the server with SIGKILL and waits.
func (s *Server) Kill() { s.proc.Kill() }

// Stop ends the server with SIGTERM and waits.
func (s *Server) Stop() { s.proc.Stop() }

// Restart stops the server and starts it again.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

// Backup copies the server's directory, its datastore and its keys, while the server is stopped, and returns where to.
func (s *Server) Backup() string {
	s.t.Helper()
	s.Stop()
	to := filepath.Join(TempDir(s.t), "backup")
	if err := os.CopyFS(to, os.DirFS(s.Dir)); err != nil {
		s.t.Fatal(err)
	}
	s.Start()
	return to
}

// LoseDisk kills the server and deletes all that it had.
func (s *Server) LoseDisk() {
	s.t.Helper()
	s.Kill()
	if err := os.RemoveAll(s.Dir); err != nil {
		s.t.Fatal(err)
	}
}

// Restore puts a backup in place and starts the server.
func (s *Server) Restore(from string) {
	s.t.Helper()
	if err := os.CopyFS(s.Dir, os.DirFS(from)); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chmod(s.Dir, 0o700); err != nil { //nolint:gosec // a directory
		s.t.Fatal(err)
	}
	s.Start()
}

// Log is what the server has said.
func (s *Server) Log() string { return s.proc.Output() }

// Sees waits until the server's log has the texts.
func (s *Server) Sees(texts ...string) { s.t.Helper(); s.proc.Sees(texts...) }

// ID makes a SPIFFE ID of a path such as "/swarm/sl"; what has a scheme stays as it is.
func (s *Server) ID(path string) string {
	if strings.HasPrefix(path, "spiffe://") {
		return path
	}
	return "spiffe://" + s.TrustDomain + path
}

func spiffeID(id string) *types.SPIFFEID {
	domain, path, _ := strings.Cut(strings.TrimPrefix(id, "spiffe://"), "/")
	return &types.SPIFFEID{TrustDomain: domain, Path: "/" + path}
}

// PEM is a bundle's X.509 authorities.
func PEM(b *types.Bundle) []byte {
	var out []byte
	for _, a := range b.GetX509Authorities() {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.GetAsn1()})...)
	}
	return out
}

// Roots are a bundle's X.509 authorities.
func Roots(t *testing.T, b *types.Bundle) (out []*x509.Certificate) {
	t.Helper()
	for _, a := range b.GetX509Authorities() {
		certs, err := x509.ParseCertificates(a.GetAsn1())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, certs...)
	}
	return out
}

// TempDir is t.TempDir with a name so short that sockets fit in it.
func TempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sp-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// FreePort is a port of 127.0.0.1 that was free just now.
func FreePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// await polls what sends no event until it is so, the process ends or the time is over.
func await(t *testing.T, p *e2etest.Proc, what string, is func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e2etest.Timeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		once, stop := context.WithTimeout(ctx, time.Second)
		ok := is(once)
		stop()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-p.Done:
			t.Fatalf("%s ended (%s) before it was %s", p.Name, p.Cmd.ProcessState, what)
		case <-ctx.Done():
			t.Fatalf("%s is not %s within %s", p.Name, what, e2etest.Timeout)
		}
	}
}
