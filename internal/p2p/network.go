package p2p

import (
	"context"
	"fmt"
	"net"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/swarmd/swarmd/identity"
)

// Network is a node's end of the peer-to-peer network, for what must also run on another: Open returns a *Host as one, and Host has the
// methods' documentation.
type Network interface {
	Handle(protocol string, policy Policy, fn func(ctx context.Context, s Conn))
	// Dial is DialFit, or DialDedicated.
	Dial(ctx context.Context, to Addr, protocol string, dedicated bool, fits func(Peer) error) (Conn, error)
	Linker
	Contact(ctx context.Context, hostport string, role identity.Role) (Peer, error)
	Disconnect(id peer.ID)
	Close() error
}

// Linker has connections stand before streams need them; Host has the methods' documentation.
type Linker interface {
	Link(ctx context.Context, to Addr, fits func(Peer) error) error
	Reach(to Addr, fits func(Peer) error) Reach
}

// Conn is a stream of a Network; Stream has the methods' documentation.
type Conn interface {
	net.Conn
	CloseWrite() error
	Reset() error
	Peer() Peer
	Disconnect() error
}

// Open is NewHost for a Network.
func Open(cfg Config) (Network, error) {
	h, err := NewHost(cfg)
	if err != nil {
		return nil, err
	}
	return h.Network(), nil
}

// Network returns the host as a Network.
func (h *Host) Network() Network { return opened{h} }

type opened struct{ *Host }

// Handle implements Network.
func (o opened) Handle(protocol string, policy Policy, fn func(ctx context.Context, s Conn)) {
	o.Host.Handle(protocol, policy, func(ctx context.Context, s *Stream) { fn(ctx, s) })
}

// Dial implements Network.
func (o opened) Dial(ctx context.Context, to Addr, protocol string, dedicated bool, fits func(Peer) error) (Conn, error) {
	open := o.DialFit
	if dedicated {
		open = o.DialDedicated
	}
	s, err := open(ctx, to, protocol, fits)
	if err != nil {
		return nil, err // never a nil *Stream in an interface
	}
	return s, nil
}

// Is fails unless the peer has a role, which its SVID proves.
func (p Peer) Is(want identity.Role) error {
	if role := p.Identity.Role(); role != want {
		return fmt.Errorf("%w: it has the role %s, not %s", identity.ErrNotAuthorized, role, want)
	}
	return nil
}
