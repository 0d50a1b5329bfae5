// Package web serves SWCI to programs as the original's web mode does: over mutual TLS, one command a request. Commands run beside each
// other: one that waits is in nobody's way.
package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/refused"
)

const (
	// drainTime is how long requests that run may take when the server stops.
	drainTime = 5 * time.Second
	// spareTime is what a command has beyond the longest wait.
	spareTime = 30 * time.Minute
	// bodyTime is how long a request may take to arrive.
	bodyTime = 30 * time.Second
	// maxRequests bounds the requests that are in the server, and maxOfClient those of one client among them.
	maxRequests = 64
	maxOfClient = 16
	// maxHeader bounds the head of a request in bytes, with a command of maxCommand bytes that is escaped.
	maxHeader = 3*maxCommand + 16<<10
)

// Runner executes commands.
type Runner interface {
	// Do executes one line of the client with this SPIFFE ID and returns the lines that it answers. The lines of an error stand last, the
	// first of them begins with "ERROR : ", and it is returned too. Several run at once, also of one client.
	Do(ctx context.Context, client, line string) (answer []string, err error)
	// Subject is what of a line may stand in a log: no value that is nobody's business.
	Subject(line string) string
}

// Config is what a server needs.
type Config struct {
	Source  identity.Source  // shows who the server is and verifies its clients
	Domains identity.Domains // that clients may be of; their role is swci
	// Clients are those who are let in beside the server's own identity.
	Clients pattern.List
	Runner  Runner
	Dir     string        // the user directory, in which task files are stored; "": they are refused
	Longest time.Duration // that a command may wait; it is ended half an hour later
	Log     *slog.Logger  // who had what done, and who was refused
}

// Server answers /exec and /uploadTaskDef.
type Server struct {
	cfg    Config
	inside sync.WaitGroup // requests

	mu       sync.Mutex
	stopped  bool
	requests map[string]int // in the server, by client
	total    int            // of them
	counts   Counts         // without those that are under way
}

// Counts is what a server does now, and what it has done.
type Counts struct {
	Requests     int // under way
	Done, Failed uint64
	Refused      uint64 // requests of who is no client, and beyond the bounds
}

// Counts returns what the server does now, and what it has done.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Requests = s.total
	return c
}

// count has one more counted of what n returns.
func (s *Server) count(n func(c *Counts) *uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n(&s.counts)++
}

// New returns a server; Serve runs it.
func New(cfg Config) *Server { return &Server{cfg: cfg, requests: map[string]int{}} }

// Serve answers on ln, which it closes, until ctx ends; then it lets requests that run finish for a few seconds, cuts them, and returns
// nil. It returns an error when serving fails before that.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	running, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	cfg := identity.ServerTLS(s.cfg.Source, s.cfg.Domains, identity.RoleSWCI)
	cfg.NextProtos = []string{"http/1.1"}
	srv := &http.Server{
		Handler: s.handler(), TLSConfig: cfg, BaseContext: func(net.Listener) context.Context { return running },
		ReadHeaderTimeout: bodyTime, MaxHeaderBytes: maxHeader, ConnState: proven,
		ErrorLog: log.New(refused.NewLog(s.cfg.Log, time.Now), "", 0),
	}
	srv.SetKeepAlivesEnabled(false) // so that each request is of a client that has just been verified
	done := make(chan error, 1)
	go func() { done <- srv.ServeTLS(identity.NewGate(ln, identity.GateConfig{Log: s.cfg.Log}), "", "") }()
	select {
	case err := <-done:
		return fmt.Errorf("serve web mode on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(running, drainTime)
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		cut()
		_ = srv.Close() // it cuts what would not end
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve web mode on %s: %w", ln.Addr(), err)
	}
	// A command that was cut may still end: nothing of the session is to be touched by then.
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.inside.Wait()
	return nil
}

// proven tells the gate that a connection has passed its TLS handshake.
func proven(c net.Conn, state http.ConnState) {
	if t, ok := c.(*tls.Conn); ok && state == http.StateActive {
		if g, ok := t.NetConn().(*identity.GatedConn); ok {
			g.Proven()
		}
	}
}

// handler serves clients that the TLS handshake has let in.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /exec", s.exec)
	mux.HandleFunc("POST /uploadTaskDef", s.upload)
	// A browser that has an operator's certificate must not act for other pages.
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, err := s.admit(r)
		if err != nil {
			s.cfg.Log.Warn("client refused", "client", client, "error", err)
			s.count(func(c *Counts) *uint64 { return &c.Refused })
			turnAway(w, http.StatusForbidden, err.Error())
			return
		}
		leave, err := s.enter(client)
		if err != nil {
			s.count(func(c *Counts) *uint64 { return &c.Refused })
			turnAway(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		defer leave()
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // an error means no connection to stall
		mux.ServeHTTP(w, r)
	}))
}

// client names who asks.
func (s *Server) client(r *http.Request) string {
	id, err := identity.PeerFromTLS(s.cfg.Source, r.TLS)
	if err != nil {
		return ""
	}
	return id.String()
}

// admit names who asks, with an error if it is none of those who may: what is done is done in the server's name, so that whoever does not
// have that is to be named.
func (s *Server) admit(r *http.Request) (client string, err error) {
	client = s.client(r)
	svid, err := s.cfg.Source.GetX509SVID()
	if err != nil {
		return client, fmt.Errorf("the server has no identity: %w", err)
	}
	if client == "" || client != svid.ID.String() && !s.cfg.Clients.Match(client) {
		return client, fmt.Errorf("%s is no client of this web mode: start it with --web-client=%s", cmp.Or(client, "who asks"), cmp.Or(client, "SPIFFE-ID"))
	}
	return client, nil
}

// enter counts a request until leave, with an error if there are too many.
func (s *Server) enter(client string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return nil, errors.New("the server stops")
	case s.total >= maxRequests:
		return nil, fmt.Errorf("%d requests are under way already: try again later", maxRequests)
	case s.requests[client] >= maxOfClient:
		return nil, fmt.Errorf("%d requests of %s are under way already: try again later", maxOfClient, client)
	}
	s.inside.Add(1)
	s.total++
	s.requests[client]++
	return func() {
		defer s.inside.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.total--
		if s.requests[client]--; s.requests[client] == 0 {
			delete(s.requests, client)
		}
	}, nil
}

// turnAway answers a request that is no command's.
func turnAway(w http.ResponseWriter, status int, why string) { http.Error(w, "ERROR : "+why, status) }
