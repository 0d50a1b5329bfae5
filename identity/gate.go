package identity

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// MaxUnproven is how many connections of one listener may be in their handshake at the same time.
	MaxUnproven = 128
	// unprovenAge is how long a handshake is left alone when others wait for its place.
	unprovenAge = time.Second
	// gateNotice is how often a crowded gate says so.
	gateNotice = time.Minute
)

// Gate is a listener that bounds the connections whose peers are not proven yet: anybody can open those. While the
// bound is reached new ones wait in the kernel's queue; a handshake that has had its second is then pushed out for
// them. So peers that all come at once are served in turn, and who connects and says nothing keeps nobody away.
type Gate struct {
	net.Listener
	limit int
	log   *slog.Logger

	freed  chan struct{} // holds one token when a place may be free
	closed chan struct{}

	// mu guards what follows.
	mu      sync.Mutex
	open    []*GatedConn // oldest first
	noticed time.Time
	shut    bool
}

// NewGate bounds l, which it owns, to limit unproven connections. Whoever proves a peer calls Proven of its connection.
func NewGate(l net.Listener, limit int, log *slog.Logger) *Gate {
	return &Gate{Listener: l, limit: limit, log: log, freed: make(chan struct{}, 1), closed: make(chan struct{})}
}

// GatedConn is a connection that counts as unproven until Proven or Close.
type GatedConn struct {
	net.Conn
	gate  *Gate
	since time.Time
}

// Proven frees the connection's place. Calling it again does nothing.
func (c *GatedConn) Proven() { c.gate.release(c) }

// NetConn returns the connection that was accepted.
func (c *GatedConn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and frees its place.
func (c *GatedConn) Close() error {
	c.gate.release(c)
	return c.Conn.Close()
}

// Accept returns the next connection, a *GatedConn, when there is a place for it.
func (g *Gate) Accept() (net.Conn, error) {
	raw, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &GatedConn{Conn: raw, gate: g}
	for {
		wait, oldest := g.admit(c)
		if oldest != nil {
			_ = oldest.Conn.Close() // its handshake fails and says so
		}
		if wait <= 0 {
			return c, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-g.freed:
		case <-timer.C:
		case <-g.closed:
			timer.Stop()
			_ = raw.Close()
			return nil, net.ErrClosed
		}
		timer.Stop()
	}
}

// admit gives c a place, or tells how long to wait for one. The connection that lost its place for it is to be closed.
func (g *Gate) admit(c *GatedConn) (wait time.Duration, pushedOut *GatedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if len(g.open) >= g.limit {
		pushedOut = g.open[0]
		if wait = unprovenAge - now.Sub(pushedOut.since); wait > 0 {
			return wait, nil
		}
		g.open = g.open[1:]
		if now.Sub(g.noticed) >= gateNotice {
			g.noticed = now
			g.log.Warn("too many connections that do not prove who they are: dropping the oldest", "address", g.Addr().String(), "limit", g.limit, "remote", pushedOut.RemoteAddr().String())
		}
	}
	c.since = now
	g.open = append(g.open, c)
	return 0, pushedOut
}

func (g *Gate) release(c *GatedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, x := range g.open {
		if x == c {
			g.open = append(g.open[:i:i], g.open[i+1:]...)
			select {
			case g.freed <- struct{}{}:
			default:
			}
			return
		}
	}
}

// Close closes the listener; connections stay open.
func (g *Gate) Close() error {
	g.mu.Lock()
	if !g.shut {
		g.shut = true
		close(g.closed)
	}
	g.mu.Unlock()
	return g.Listener.Close()
}
