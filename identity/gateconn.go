package identity

import (
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// GatedConn is a connection that counts as unproven until Proven or Close.
type GatedConn struct {
	net.Conn
	gate   *Gate
	source netip.Prefix

	// Guarded by the gate's mu.
	phase gatePhase
	since time.Time // it came into the phase
	turn  uint64    // the order in which that happened
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

// SourceOf returns what connections of one origin have in common: the IPv4 address, or the IPv6 network of 64 bits, which
// one host can have to itself.
func SourceOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits) // the zero value for no address
	return p
}

// peeked is what a look at a connection's first byte finds.
type peeked int

const (
	peekedNothing peeked = iota
	peekedByte
	peekedEnd // or an error
)

// peek reports whether the peer has spoken. Of what is no socket nothing is known: it is taken to have.
func (c *GatedConn) peek() (found peeked) {
	raw := rawOf(c.Conn)
	if raw == nil {
		return peekedByte
	}
	if err := raw.Control(func(fd uintptr) { found = peekAt(fd) }); err != nil {
		return peekedEnd
	}
	return found
}

// awaitFirst brings a silent connection on when its peer speaks, and closes it when it does not.
func (c *GatedConn) awaitFirst() {
	found := peekedEnd
	err := rawOf(c.Conn).Read(func(fd uintptr) bool {
		found = peekAt(fd)
		return found != peekedNothing
	})
	if err != nil {
		found = peekedEnd
	}
	c.gate.heard(c, found)
}

func rawOf(c net.Conn) syscall.RawConn {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

func peekAt(fd uintptr) peeked {
	var b [1]byte
	for {
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return peekedNothing
		case err != nil || n == 0:
			return peekedEnd
		default:
			return peekedByte
		}
	}
}

// drop closes connections at once: their peers get a reset, and this host keeps nothing of them.
func drop(list []*GatedConn) {
	for _, c := range list {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Conn.Close()
	}
}
