package bridge

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// clients knows the live connections and which session each one used last, so that the bridge can tell a program that is
// gone from one that computes.
type clients struct {
	mu    sync.Mutex
	conns map[net.Conn]string // session id, empty before the first use
}

type connKey struct{}

func newClients() *clients { return &clients{conns: make(map[net.Conn]string)} }

// admit takes a new connection unless there are too many.
func (c *clients) admit(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.conns) >= maxClients {
		return false
	}
	c.conns[conn] = ""
	return true
}

func (c *clients) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

func (c *clients) state(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.conns, conn)
	}
}

// use notes that the connection of ctx speaks for a session.
func (c *clients) use(ctx context.Context, session string) {
	conn := connOf(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, live := c.conns[conn]; live {
		c.conns[conn] = session
	}
}

// present reports whether a connection other than except speaks for the session.
func (c *clients) present(session string, except net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn, id := range c.conns {
		if id == session && conn != except {
			return true
		}
	}
	return false
}

func connOf(ctx context.Context) net.Conn {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	return conn
}

// limitListener closes connections beyond the limit at once: a program needs one or two.
type limitListener struct {
	net.Listener
	clients *clients
}

// Accept returns the next connection within the limit.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.clients.admit(conn) {
			return conn, err
		}
		_ = conn.Close()
	}
}
