package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/refused"
)

// drainTime is how long calls that run may take when the server stops.
const drainTime = 5 * time.Second

const (
	// maxStreams bounds the calls of one connection.
	maxStreams = 128
	// maxUnread bounds what of a connection's requests is in memory before it is read.
	maxUnread = 256 << 10
)

// TLSConfig is the API's: TLS 1.3 with SVIDs on both sides, any role of an accepted trust domain. What a role may do is
// the access table's matter.
func TLSConfig(source identity.Source, domains identity.Domains) *tls.Config {
	cfg := identity.ServerTLS(source, domains)
	cfg.NextProtos = []string{"h2", "http/1.1"}
	return cfg
}

// Serve answers on ln, which it closes, until ctx ends; then it ends streams, lets calls that run finish for a few
// seconds and returns nil. It returns an error when serving fails before that.
func (s *Server) Serve(ctx context.Context, ln net.Listener, cfg *tls.Config) error {
	srv := &http.Server{
		Handler: s.Handler(), TLSConfig: cfg,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 64 << 10,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second, MaxConcurrentStreams: maxStreams,
			MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread,
		},
		ErrorLog: log.New(refused.NewLog(s.cfg.Log, time.Now), "", 0),
	}
	srv.ConnState = s.watchConn()
	done := make(chan error, 1)
	go func() { done <- srv.ServeTLS(identity.NewGate(ln, identity.GateConfig{Log: s.cfg.Log}), "", "") }()
	select {
	case err := <-done:
		s.Stop()
		return fmt.Errorf("serve API on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.Stop() // first: streams would hold up Shutdown
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		_ = srv.Close() // it cuts what would not end
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve API on %s: %w", ln.Addr(), err)
	}
	return nil
}

// watchConn tells the gate that a connection has passed its TLS handshake, and bounds those of one SPIFFE ID.
func (s *Server) watchConn() func(net.Conn, http.ConnState) {
	var (
		mu    sync.Mutex
		known = map[net.Conn]func(){} // what is to be called when they end
	)
	return func(c net.Conn, state http.ConnState) {
		t, ok := c.(*tls.Conn)
		if !ok || state == http.StateNew {
			return
		}
		if g, ok := t.NetConn().(*identity.GatedConn); ok {
			g.Proven()
		}
		mu.Lock()
		defer mu.Unlock()
		leave, entered := known[c]
		switch {
		case state == http.StateClosed || state == http.StateHijacked:
			if delete(known, c); entered {
				leave()
			}
		case !entered:
			tlsState := t.ConnectionState()
			caller, err := s.cfg.Caller(&http.Request{TLS: &tlsState})
			if err == nil { // who is nobody is refused at the first request
				known[c] = s.entrance.crowd.Enter(caller.ID, c.RemoteAddr(), func() { _ = c.Close() })
			}
		}
	}
}
