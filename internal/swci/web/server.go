// Package web serves SWCI to programs as the original's web mode does: over mutual TLS, one command a request. All requests are of one
// session, with one working directory and one current context.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/refused"
)

const (
	// drainTime is how long requests that run may take when the server stops.
	drainTime = 5 * time.Second
	// commandTime bounds one command: a little more than the longest wait of a command by default, which is two hours.
	commandTime = 150 * time.Minute
	// bodyTime is how long a request may take to arrive.
	bodyTime = 30 * time.Second
	// maxRequests bounds the requests that are in the server; all but one of their commands wait.
	maxRequests = 32
	// maxHeader bounds the head of a request in bytes, with a command of maxCommand bytes that is escaped.
	maxHeader = 3*maxCommand + 16<<10
)

// Runner executes commands.
type Runner interface {
	// Do executes one line and returns the lines that it answers. The lines of an error stand last, the first of them begins with
	// "ERROR : ", and it is returned too. One call at a time.
	Do(ctx context.Context, line string) (answer []string, err error)
}

// Config is what a server needs.
type Config struct {
	Source  identity.Source  // shows who the server is and verifies its clients
	Domains identity.Domains // that clients may be of; their role is swci
	Runner  Runner
	Dir     string       // the user directory, in which task files are stored; "": they are refused
	Log     *slog.Logger // who had what done, and who was refused
}

// Server answers /exec and /uploadTaskDef.
type Server struct {
	cfg  Config
	busy chan struct{} // holds a token while a command runs
	room chan struct{} // holds a token for each request in the server
}

// New returns a server; Serve runs it.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, busy: make(chan struct{}, 1), room: make(chan struct{}, maxRequests)}
}

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
	s.busy <- struct{}{}
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
		select {
		case s.room <- struct{}{}:
			defer func() { <-s.room }()
		default:
			turnAway(w, http.StatusServiceUnavailable, fmt.Sprintf("%d requests wait already: try again later", maxRequests))
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // an error means no connection to stall
		mux.ServeHTTP(w, r)
	}))
}

// client names who asks, for the log.
func (s *Server) client(r *http.Request) string {
	id, err := identity.PeerFromTLS(s.cfg.Source, r.TLS)
	if err != nil {
		return "unknown"
	}
	return id.String()
}

// turnAway answers a request that is no command's.
func turnAway(w http.ResponseWriter, status int, why string) { http.Error(w, "ERROR : "+why, status) }
