package p2p

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/swarmd/swarmd/identity"
)

// unproven is what a gate's connections have in common: the handshake tells them that it succeeded.
type unproven interface {
	Proven()
	NetConn() net.Conn // the one that was accepted
}

// gatedListener bounds the connections in their handshake; libp2p's upgrader bounds only their time.
type gatedListener struct {
	manet.Listener
	gate *identity.Gate
}

func newGatedListener(l net.Listener, log *slog.Logger) (*gatedListener, error) {
	gate := identity.NewGate(l, identity.GateConfig{Log: log})
	ml, err := manet.WrapNetListener(gate)
	if err != nil {
		return nil, err
	}
	return &gatedListener{Listener: ml, gate: gate}, nil
}

type gatedConn struct {
	manet.Conn
	unproven
}

// Accept returns the next connection when there is a place for it; the connection implements unproven.
func (l *gatedListener) Accept() (manet.Conn, error) {
	for {
		c, err := l.gate.Accept()
		if err != nil {
			return nil, err
		}
		mc, err := manet.WrapNetConn(c)
		if err != nil { // an address that is not TCP: not from this listener
			_ = c.Close()
			continue
		}
		return gatedConn{mc, c.(unproven)}, nil
	}
}

const (
	// A flood of refusals must not fill a disk: so many are logged in so long, the others are counted.
	throttleLines = 20
	throttleEvery = time.Minute
)

// throttle bounds what is logged of events that anybody on the network can cause. The zero value is ready.
type throttle struct {
	mu      sync.Mutex
	since   time.Time
	lines   int
	omitted int
}

// allow reports whether another line of the level may be logged, and how many were not since the last one that was.
func (t *throttle) allow(ctx context.Context, log *slog.Logger, level slog.Level) (omitted int, ok bool) {
	if !log.Enabled(ctx, level) {
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.since) >= throttleEvery {
		t.since, t.lines = now, 0
	}
	if t.lines++; t.lines > throttleLines {
		t.omitted++
		return 0, false
	}
	omitted, t.omitted = t.omitted, 0
	return omitted, true
}
