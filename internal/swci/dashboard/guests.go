package dashboard

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
)

// guests is a listener that bounds connections. Where there are too many, the oldest goes on which nobody that was let in has asked for something:
// who has no address can't keep those out that have one.
type guests struct {
	net.Listener
	max int

	mu  sync.Mutex
	all []*guest // oldest first
}

// guest is a connection.
type guest struct {
	net.Conn
	of    *guests
	known bool // somebody asked who was let in; guarded by the listener's mu
}

// Accept implements net.Listener.
func (g *guests) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		one := &guest{Conn: c, of: g}
		out := g.add(one)
		if out == nil {
			return one, nil
		}
		_ = out.Conn.Close() // whoever has gone has no say
		if out != one {
			return one, nil
		}
	}
}

// add takes a connection in, and returns one that has to go for that: itself where all others are of those who were let in.
func (g *guests) add(one *guest) (out *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) == g.max {
		i := slices.IndexFunc(g.all, func(x *guest) bool { return !x.known })
		if i < 0 {
			return one
		}
		out = g.all[i]
		g.all = slices.Delete(g.all, i, i+1)
	}
	g.all = append(g.all, one)
	return out
}

// Close implements net.Conn.
func (c *guest) Close() error {
	c.of.mu.Lock()
	if i := slices.Index(c.of.all, c); i >= 0 {
		c.of.all = slices.Delete(c.of.all, i, i+1)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

type guestKey struct{}

// withGuest tells handlers of the connection that a request came by.
func withGuest(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, guestKey{}, c)
}

// isKnown notes that somebody who was let in asks by this connection.
func isKnown(ctx context.Context) {
	if c, ok := ctx.Value(guestKey{}).(*guest); ok {
		c.of.mu.Lock()
		c.known = true
		c.of.mu.Unlock()
	}
}
