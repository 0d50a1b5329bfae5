package p2p

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	libtransport "github.com/libp2p/go-libp2p/core/transport"
)

// dedicatedID is agreed on with TLS, in place of yamux, for a connection that carries one stream. Bulk goes faster there by
// what a multiplexer costs: two copies of each byte, two goroutines to wake, and a queue that all streams share.
//
// Such a connection goes through the same gates, handshake and policies as any other. Besides it is a part of another
// connection with the same peer, its parent: it proves so (see binding), shares the parent's lifetime, which each new SVID
// prolongs, and ends with it.
const dedicatedID protocol.ID = "/swarm/alone/1"

// dedicatedKey in a context makes a dialled connection one that carries one stream.
type dedicatedKey struct{}

var errNoSecurity = errors.New("connection without security transport")

// dedicatedMuxer is the multiplexer of connections that carry one stream.
type dedicatedMuxer struct{}

func (dedicatedMuxer) NewConn(nc net.Conn, _ bool, _ network.PeerScope) (network.MuxedConn, error) {
	c, ok := nc.(*secureConn)
	if !ok {
		return nil, errNoSecurity
	}
	return &dedicatedConn{secure: c}, nil
}

// dedicatedOf returns what the upgrader hides.
func dedicatedOf(c libtransport.CapableConn) (*dedicatedConn, bool) {
	var a *dedicatedConn
	return a, c.As(&a)
}

// dedicatedConn is a connection and its only stream.
type dedicatedConn struct {
	secure *secureConn

	mu       sync.Mutex
	closed   bool
	released func() // called once when it is closed; may be nil
}

var (
	_ network.MuxedConn   = (*dedicatedConn)(nil)
	_ network.MuxedStream = (*dedicatedStream)(nil)
)

// onClose sets what to call once the connection is closed, which may be now.
func (c *dedicatedConn) onClose(f func()) {
	c.mu.Lock()
	closed := c.closed
	c.released = f
	c.mu.Unlock()
	if closed {
		f()
	}
}

// Close ends the connection at once.
func (c *dedicatedConn) Close() error {
	c.mu.Lock()
	f := c.released
	if c.closed {
		f = nil
	}
	c.closed = true
	c.mu.Unlock()
	err := c.secure.Close()
	if f != nil {
		f()
	}
	return err
}

// CloseWithError is Close: there is nobody to tell a code to.
func (c *dedicatedConn) CloseWithError(network.ConnErrorCode) error { return c.Close() }

// IsClosed reports whether this side has closed it.
func (c *dedicatedConn) IsClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// OpenStream returns the only stream.
func (c *dedicatedConn) OpenStream(context.Context) (network.MuxedStream, error) {
	return &dedicatedStream{conn: c}, nil
}

// AcceptStream returns the only stream, as OpenStream.
func (c *dedicatedConn) AcceptStream() (network.MuxedStream, error) {
	return &dedicatedStream{conn: c}, nil
}

// As implements network.MuxedConn.
func (c *dedicatedConn) As(target any) bool {
	if t, ok := target.(**dedicatedConn); ok {
		*t = c
		return true
	}
	return false
}

// dedicatedStream is a TLS connection as a stream.
type dedicatedStream struct{ conn *dedicatedConn }

// Read reads. io.EOF only says that the peer has closed its direction; that the connection broke is another error.
func (s *dedicatedStream) Read(p []byte) (int, error) {
	n, err := s.conn.secure.Read(p)
	if errors.Is(err, io.EOF) && s.conn.secure.wire.ended {
		err = fmt.Errorf("connection lost: %w", io.ErrUnexpectedEOF)
	}
	return n, err
}

// Write writes. After a deadline has cut it short the stream can only be closed.
func (s *dedicatedStream) Write(p []byte) (int, error) { return s.conn.secure.Write(p) }

// WriteFrame writes a header and a payload as one.
func (s *dedicatedStream) WriteFrame(header, payload []byte) (int, error) {
	return s.conn.secure.WriteFrame(header, payload)
}

// Queues is Stream's.
func (s *dedicatedStream) Queues() bool { return s.conn.secure.wire.queues() }

// CloseWrite tells the peer that nothing more comes.
func (s *dedicatedStream) CloseWrite() error { return s.conn.secure.CloseWrite() }

// CloseRead does nothing: what still comes must be read, or the kernel would drop what was written.
func (s *dedicatedStream) CloseRead() error { return nil }

// Close ends both directions. What was written arrives if the peer reads it within linger.
func (s *dedicatedStream) Close() error {
	if s.conn.IsClosed() {
		return nil
	}
	err := s.conn.secure.CloseWrite()
	_ = s.SetReadDeadline(time.Now()) // ends a Read
	go func() {
		_ = s.SetReadDeadline(time.Now().Add(linger))
		_, _ = io.Copy(io.Discard, s)
		_ = s.conn.Close()
	}()
	return err
}

// Reset drops the connection: the peer finds it lost.
func (s *dedicatedStream) Reset() error { return s.conn.Close() }

// ResetWithError is Reset: there is no way to tell a code.
func (s *dedicatedStream) ResetWithError(network.StreamErrorCode) error { return s.Reset() }

func (s *dedicatedStream) SetDeadline(t time.Time) error     { return s.conn.secure.SetDeadline(t) }
func (s *dedicatedStream) SetReadDeadline(t time.Time) error { return s.conn.secure.SetReadDeadline(t) }

func (s *dedicatedStream) SetWriteDeadline(t time.Time) error {
	return s.conn.secure.SetWriteDeadline(t)
}
