package dashboard

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
)

// guests is a listener that bounds connections. Where there are too many, the oldest of those goes by which least is proven: idle connections and
// slow requests of whoever has no address keep nobody out that has one. It is no defence against a flood: a new connection of a browser has as
// long as it takes others to make as many new ones as there may be, until its request is read.
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
	proof proof // the most that a request by it has proven; guarded by the listener's mu
}

// proof is what a request proves of who sends it.
type proof int

const (
	nothing proof = iota
	cookie        // a browser that was let in, or another server of this machine, which is sent the cookie too
	secret        // a page, by its key, or who has the address
)

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

// add takes a connection in, and returns one that has to go for that: itself where all others are of pages.
func (g *guests) add(one *guest) (out *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) == g.max {
		least := slices.MinFunc(g.all, func(a, b *guest) int { return cmp.Compare(a.proof, b.proof) }) // the first of several
		if least.proof == secret {
			return one
		}
		out = least
		i := slices.Index(g.all, least)
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

// proves notes what a request proves of the connection that it came by.
func proves(ctx context.Context, what proof) {
	if c, ok := ctx.Value(guestKey{}).(*guest); ok {
		c.of.mu.Lock()
		c.proof = max(c.proof, what)
		c.of.mu.Unlock()
	}
}
