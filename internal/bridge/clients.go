package bridge

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
)

// clients knows the live connections and which session each one used last, so that the bridge can tell a program that is
// gone from one that computes.
type clients struct {
	mu    sync.Mutex
	conns map[net.Conn]*client
	left  chan departure // nil: nobody asks
}

// client is what is known of a connection.
type client struct {
	session string // id, empty before the first use
	calls   int    // for that session
	process *os.File
}

type connKey struct{}

// newClients makes the set; watched: who ends is to be told.
func newClients(watched bool) *clients {
	c := &clients{conns: make(map[net.Conn]*client)}
	if watched {
		c.left = make(chan departure, maxClients)
	}
	return c
}

// admit takes a new connection unless there are too many.
func (c *clients) admit(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.conns) >= maxClients {
		return false
	}
	c.conns[conn] = &client{}
	if c.left != nil {
		c.conns[conn].process = processOf(conn)
	}
	return true
}

func (c *clients) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

func (c *clients) state(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		c.mu.Lock()
		defer c.mu.Unlock()
		gone := c.conns[conn]
		delete(c.conns, conn)
		c.departLocked(gone)
	}
}

// departLocked hands on what a closed connection was, if it was the last one of a session and kept open for it.
func (c *clients) departLocked(gone *client) {
	if gone == nil || gone.process == nil {
		return
	}
	if gone.calls >= keptCalls && !c.presentLocked(gone.session, nil) {
		select {
		case c.left <- departure{gone.session, gone.process}:
			return
		default: // more than there can be connections wait to be looked at
		}
	}
	_ = gone.process.Close()
}

// use notes that the connection of ctx speaks for a session.
func (c *clients) use(ctx context.Context, session string) {
	conn := connOf(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	known, live := c.conns[conn]
	if !live {
		return
	}
	if known.session != session {
		known.session, known.calls = session, 0
	}
	known.calls++
}

// present reports whether a connection other than except speaks for the session.
func (c *clients) present(session string, except net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.presentLocked(session, except)
}

func (c *clients) presentLocked(session string, except net.Conn) bool {
	for conn, known := range c.conns {
		if known.session == session && conn != except {
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
