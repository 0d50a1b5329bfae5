// Package embedded is the one-machine authority: a SPIFFE Workload API server whose CA lives in a directory, with
// one unix socket per role. It is for laptops, tests and demos. Who may open a socket gets the role's identity, so
// it divides users of a machine, never processes of one user, and it listens on nothing else.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/filelock"
)

const (
	// DefaultTrustDomain is the trust domain of an authority that is not told another.
	DefaultTrustDomain = "swarm.learning"
	// DefaultTTL is the lifetime of an SVID unless set otherwise.
	DefaultTTL = time.Hour

	lockFile    = "authority.lock"
	maxUnixPath = 107 // Linux: 108 bytes with the final zero
)

// Config describes an authority.
type Config struct {
	// Dir keeps the CA, the sockets and the lock. It is made with mode 0700 if missing.
	Dir string
	// TrustDomain is "" for DefaultTrustDomain.
	TrustDomain string
	// TTL is the SVIDs' lifetime, 0 for DefaultTTL. They are renewed at half of it.
	TTL time.Duration
	// Paths maps further socket names to lists of SPIFFE paths ("extra": {"/swarm/sl/a", "/swarm/sl"}), beside
	// the socket of each role. Nil is usual.
	Paths map[string][]string
	// Log receives start, stop and requests.
	Log *slog.Logger
}

// Authority issues the identities of a one-machine swarm.
type Authority struct {
	cfg     Config
	domain  spiffeid.TrustDomain
	sockets map[string][]string
	served  map[string]*served // by socket
	ca      atomic.Pointer[authorityCA]
	ready   chan struct{}
}

// Status is what an authority does.
type Status struct {
	// CANotAfter is when its CA certificate expires; zero: it has none yet.
	CANotAfter time.Time
	// Sockets is what was had at each, by name.
	Sockets map[string]Socket
}

// Socket is what was had at one.
type Socket struct {
	Issued    uint64 // SVIDs
	Workloads int64  // streams of programs that are given SVIDs now
}

// served counts what is had at a socket.
type served struct {
	issued    atomic.Uint64
	workloads atomic.Int64
}

// Status returns what this authority has done since it runs. It may be called at any time.
func (a *Authority) Status() Status {
	s := Status{Sockets: map[string]Socket{}}
	if ca := a.ca.Load(); ca != nil {
		s.CANotAfter = ca.cert.NotAfter
	}
	for name, n := range a.served {
		s.Sockets[name] = Socket{Issued: n.issued.Load(), Workloads: n.workloads.Load()}
	}
	return s
}

// New checks the configuration; it opens and writes nothing.
func New(cfg Config) (*Authority, error) {
	if cfg.TrustDomain == "" {
		cfg.TrustDomain = DefaultTrustDomain
	}
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.TTL < time.Second {
		return nil, fmt.Errorf("authority: SVID lifetime %s is too short: at least 1s", cfg.TTL)
	}
	domain, err := spiffeid.TrustDomainFromString(cfg.TrustDomain)
	if err != nil {
		return nil, fmt.Errorf("authority: trust domain %q: %w", cfg.TrustDomain, err)
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	a := &Authority{cfg: cfg, domain: domain, sockets: map[string][]string{}, served: map[string]*served{}, ready: make(chan struct{})}
	for _, r := range identity.Roles() {
		a.sockets[string(r)] = []string{"/swarm/" + string(r)}
	}
	for name, paths := range cfg.Paths {
		if err := naming.CheckNode(name); err != nil {
			return nil, fmt.Errorf("authority: socket: %w", err)
		}
		a.sockets[name] = paths
	}
	for name := range a.sockets {
		a.served[name] = &served{}
		if p := SocketPath(cfg.Dir, name); len(p) > maxUnixPath {
			return nil, fmt.Errorf("authority: socket path %s has %d bytes: unix sockets allow %d; use a directory with a shorter path", p, len(p), maxUnixPath)
		}
	}
	return a, nil
}

// SocketPath returns where the authority of dir serves the role's (or named) socket.
func SocketPath(dir, role string) string { return filepath.Join(dir, role+".sock") }

// Ready is closed when all sockets answer.
func (a *Authority) Ready() <-chan struct{} { return a.ready }

// Run serves until ctx ends, removes the sockets, and leaves no goroutine behind. It is called once. A directory that
// others can write or that another authority serves is an error.
func (a *Authority) Run(ctx context.Context) error {
	if err := ensureSafeDir(a.cfg.Dir); err != nil {
		return err
	}
	unlock, err := lockAuthority(a.cfg.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	ca, err := loadOrCreateCA(a.cfg.Dir, a.domain, time.Now())
	if err != nil {
		return err
	}
	a.ca.Store(ca)
	group, ctx := errgroup.WithContext(ctx)
	var listeners []net.Listener
	for name, paths := range a.sockets {
		l, err := listen(SocketPath(a.cfg.Dir, name))
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
			return err
		}
		listeners = append(listeners, l)
		api := &workloadAPI{ca: ca, paths: paths, ttl: a.cfg.TTL, served: a.served[name], log: a.cfg.Log.With("socket", name)}
		group.Go(func() error { return serve(ctx, l, api) })
	}
	a.cfg.Log.Warn("embedded authority started: for one machine only, not for production", "dir", a.cfg.Dir, "trust_domain", a.domain.Name(), "svid_ttl", a.cfg.TTL)
	close(a.ready)
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("authority: %w", err)
	}
	return nil
}

func serve(ctx context.Context, l net.Listener, api *workloadAPI) error {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 10))
	workload.RegisterSpiffeWorkloadAPIServer(server, api)
	stop := context.AfterFunc(ctx, server.Stop) // streams never end by themselves, so no graceful stop
	defer stop()
	err := server.Serve(l)
	server.Stop() // waits for handlers
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// listen makes a socket of mode 0600. The directory's lock is held, so an old socket is a dead authority's.
func listen(path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	if err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("authority: %s exists and is no socket: remove it", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("authority: remove stale socket: %w", err)
		}
	}
	l, err := net.Listen("unix", path) // its Close removes the file
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("authority: %w", err)
	}
	return l, nil
}

func ensureSafeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("authority: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("authority: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("authority: directory %s belongs to uid %d, not to uid %d that runs this: use another", dir, st.Uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("authority: directory %s has mode %04o, others may open it: run chmod 0700 %s or use another", dir, info.Mode().Perm(), dir)
	}
	return nil
}

func lockAuthority(dir string) (func(), error) {
	lock, err := filelock.Take(filepath.Join(dir, lockFile))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("authority: another one already serves %s: use it, stop it, or use another directory", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return func() { _ = lock.Close() }, nil
}
