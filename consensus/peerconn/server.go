package peerconn

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/raftnet"
)

const (
	// maxStreams bounds the requests that one SN may have open on a connection; the next ones wait at its side.
	maxStreams = 128
	// maxUnread bounds what of a connection's requests is in memory before it is read, in bytes: the most that HTTP/2 is given here.
	maxUnread = 4<<20 - 1
	// maxStreamUnread is what one request takes of it at most, so that those which wait to be read leave room for all others.
	maxStreamUnread = maxUnread / maxStreams
	// maxHeaders bounds the headers of a message, in bytes: those of a call of the API, of 64 KiB, and a certificate chain.
	maxHeaders = 192 << 10
	// prefaceTime is how long the other side may take to begin.
	prefaceTime = 10 * time.Second
)

// Server answers requests on streams that it is given. Whoever made it calls Close.
type Server struct {
	http  *http.Server
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewServer returns a server; handler learns by [PeerOf] who asks. It runs until Close.
func NewServer(handler http.Handler, log *slog.Logger) *Server {
	s := &Server{conns: make(chan net.Conn), done: make(chan struct{})}
	s.http = &http.Server{
		Handler: greeted{handler}, Protocols: onlyHTTP2(), ReadHeaderTimeout: prefaceTime, MaxHeaderBytes: maxHeaders,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingTime, WriteByteTimeout: writeTime,
			MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxStreamUnread,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			a, _ := c.(*accepted)
			return WithPeer(ctx, a.peer)
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { _ = s.http.Serve(listener{s}) }() // it only says that it was closed
	return s
}

// greeted answers a connection's first request itself: see greet.
type greeted struct{ http.Handler }

// ServeHTTP implements http.Handler.
func (g greeted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	g.Handler.ServeHTTP(w, r)
}

type peerKey struct{}

// PeerOf returns who sent a request, as the network has proven it; nobody for the context of another request.
func PeerOf(ctx context.Context) raftnet.Peer {
	p, _ := ctx.Value(peerKey{}).(raftnet.Peer)
	return p
}

// WithPeer is the context of a request that a peer has sent.
func WithPeer(ctx context.Context, p raftnet.Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// Serve answers what a peer asks on a stream until that is closed, by either side; it closes the stream.
func (s *Server) Serve(conn net.Conn, peer raftnet.Peer) {
	a := &accepted{Conn: conn, peer: peer, closed: make(chan struct{})}
	select {
	case s.conns <- a:
		<-a.closed
	case <-s.done:
		_ = conn.Close()
	}
}

// Close closes all streams. Handlers that run are told by their contexts and not waited for.
func (s *Server) Close() {
	s.once.Do(func() { close(s.done) })
	_ = s.http.Close() // of streams that end anyway
}

// accepted is a stream that the server was given.
type accepted struct {
	net.Conn
	peer   raftnet.Peer
	once   sync.Once
	closed chan struct{}
}

// Close closes the stream; further calls do nothing.
func (a *accepted) Close() error {
	var err error
	a.once.Do(func() {
		err = a.Conn.Close()
		close(a.closed)
	})
	return err
}

// listener gives the HTTP server what Serve was given.
type listener struct{ s *Server }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.s.conns:
		return c, nil
	case <-l.s.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l listener) Close() error {
	l.s.once.Do(func() { close(l.s.done) })
	return nil
}

// Addr implements net.Listener.
func (listener) Addr() net.Addr { return streams{} }

type streams struct{}

// Network names the kind of address.
func (streams) Network() string { return "swarm" }

// String returns a name for all streams.
func (streams) String() string { return "sns" }
