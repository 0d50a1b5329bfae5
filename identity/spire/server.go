package spire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/filelock"
)

const (
	startLimit = 60 * time.Second // for the server's API to answer
	pollEvery  = 50 * time.Millisecond
	// silenceLimit is how long the server of a parent that was killed may take to die.
	silenceLimit = 3 * time.Second
)

// ServerConfig says how to run a SPIRE server for a swarm.
type ServerConfig struct {
	// Binary is the spire-server program; "": Find it.
	Binary string
	// ConfigFile is the user's configuration of the server; "" writes a default into StateDir, unless there is one.
	ConfigFile string
	// StateDir is the server's own directory, made with mode 0700 if it is not there. It is locked while RunServer runs.
	StateDir string
	// TrustDomain is the server's; "": the configuration's, or DefaultTrustDomain for one that is written.
	TrustDomain string
	// Args are further options of `spire-server run`, passed on as they are.
	Args []string
	// Nodes get registration entries of their own: "sl/hospital-a".
	Nodes []string
	// FederatesWith are the trust domains that the swarm's entries federate with.
	FederatesWith []string
	// Answers is told what counts what the server has, once that answers; nil: nobody wants it.
	Answers func(count Count)
	// Log gets what the server says, too. The server itself leaves out what is below its level.
	Log *slog.Logger
}

// RunServer runs SPIRE's server as a child of this process, and keeps the swarm's registration entries, until ctx ends
// (nil) or the server does (an error with its last lines). It says "SPIRE server is ready" when the entries stand.
func RunServer(ctx context.Context, cfg ServerConfig) error {
	plan, err := newPlan(cfg.Nodes, cfg.FederatesWith)
	if err != nil {
		return err
	}
	if cfg.Binary == "" {
		if cfg.Binary, err = Find("spire-server"); err != nil {
			return err
		}
	}
	if cfg.StateDir == "" {
		return errors.New("run SPIRE server: no state directory is given")
	}
	if cfg.StateDir, err = filepath.Abs(cfg.StateDir); err != nil {
		return fmt.Errorf("open state directory: %w", err)
	}
	lock, err := lockDir(cfg.StateDir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	set, args, err := cfg.prepare()
	if err != nil {
		return err
	}
	if err := awaitSilence(ctx, set.socket); err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop, as later
		}
		return err
	}
	child, err := startChild(childSpec{Name: "spire-server", Path: cfg.Binary, Args: args, Log: cfg.Log})
	if err != nil {
		return err
	}
	defer child.Close()
	err = serve(ctx, cfg, set, plan, child)
	if ctx.Err() != nil {
		return child.Close() // an error only if the server had ended by itself before
	}
	return err
}

// prepare writes the configuration if needed and returns what it says, and the server's arguments.
func (cfg *ServerConfig) prepare() (settings, []string, error) {
	path := cfg.ConfigFile
	if path == "" {
		domain := cfg.TrustDomain
		if domain == "" {
			domain = DefaultTrustDomain
		}
		var err error
		if path, err = writeConf(cfg.StateDir, domain); err != nil {
			return settings{}, nil, err
		}
	}
	args := []string{"run", "-config", path}
	if cfg.TrustDomain != "" {
		args = append(args, "-trustDomain", cfg.TrustDomain)
	}
	args = append(args, cfg.Args...)
	set, err := readSettings(path, args)
	if err != nil {
		return settings{}, nil, err
	}
	if set.logFile == "" {
		args = append(args, "-logFormat", "json") // the last one counts: it is read here and written anew
	}
	return set, args, nil
}

// awaitSilence returns nil when nobody listens at the socket: SPIRE's server would take it from another one without a word.
// A server that was killed with its parent needs a moment to be gone.
func awaitSilence(ctx context.Context, socket string) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	limit := time.NewTimer(silenceLimit)
	defer limit.Stop()
	for {
		conn, err := net.DialTimeout("unix", socket, dialLimit)
		if err != nil {
			return nil // nobody is there, as it should be
		}
		_ = conn.Close()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("another program answers at the socket %s: stop it, or give another -socketPath", socket)
		case <-tick.C:
		}
	}
}

// serve makes the entries as soon as the server answers and stays until the server or ctx ends.
func serve(ctx context.Context, cfg ServerConfig, set settings, plan *plan, child *spireChild) error {
	api, err := dialServer(set.socket)
	if err != nil {
		return err
	}
	defer api.Close()
	if err := awaitServer(ctx, api, child); err != nil {
		return explainPort(err, set.port)
	}
	if cfg.Answers != nil {
		cfg.Answers(api.Counts)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-child.Done(): // no call to the API need wait any longer
			cancel()
		case <-ctx.Done():
		}
	}()
	err = keepEntries(ctx, cfg, set, plan, api)
	select {
	case <-child.Done():
		return child.Err()
	default:
		return err
	}
}

// keepEntries blocks until ctx ends or something fails.
func keepEntries(ctx context.Context, cfg ServerConfig, set settings, plan *plan, api *Server) error {
	_, domain, err := api.Bundle(ctx)
	if err != nil {
		return err
	}
	r, err := newRegistrar(api, plan, domain, cfg)
	if err != nil {
		return err
	}
	if err := r.ensure(ctx); err != nil {
		return err
	}
	missing, err := r.federate(ctx, plan.federates)
	if err != nil {
		return err
	}
	attrs := []any{"trust_domain", domain, "socket", set.socket, "port", set.port}
	if len(plan.nodes) > 0 {
		var commands []string
		for _, n := range plan.nodes {
			commands = append(commands, fmt.Sprintf("swarmd spire-token --server-socket %s %s", set.socket, n))
		}
		attrs = append(attrs, "join_tokens", strings.Join(commands, "; "))
	}
	cfg.Log.Info("SPIRE server is ready", attrs...)
	r.awaitBundles(ctx, missing)
	<-ctx.Done()
	return nil
}

// awaitServer blocks until the server says that it is healthy.
func awaitServer(ctx context.Context, api *Server, child *spireChild) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	last := errors.New("it did not answer")
	for {
		select {
		case <-child.Done():
			return child.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("start SPIRE server: its API is not healthy after %v: %w", startLimit, last)
		case <-tick.C:
			probe, cancel := context.WithTimeout(ctx, dialLimit)
			// A call would wait out the connection's growing pauses after the first refusal.
			api.conn.ResetConnectBackoff()
			last = api.Check(probe)
			cancel()
			if last == nil {
				return nil
			}
		}
	}
}

// explainPort puts the remedy in front of the commonest reason for which a server ends.
func explainPort(err error, port int) error {
	ended, ok := errors.AsType[*childError](err)
	if !ok {
		return err
	}
	for _, l := range ended.tail {
		if strings.Contains(l, "address already in use") {
			return fmt.Errorf("port %d is in use by another process: stop it, or give another -serverPort\n%w", port, err)
		}
	}
	return err
}

// lockDir makes the directory, closed to others since it holds the keys of the whole trust domain, and locks it, so that no
// two servers write into it.
func lockDir(dir string) (*filelock.Lock, error) {
	if err := identity.PrivateDir(dir); err != nil {
		return nil, err
	}
	lock, err := filelock.Take(filepath.Join(dir, "lock"))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("state directory %s is in use by another process: stop it, or use another --state-dir", dir)
	}
	return lock, err
}
