package p2p

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// Stream is one stream of a connection: a net.Conn whose two directions close separately. One goroutine may read
// while another writes; deadlines may be set by any.
type Stream struct {
	inner   network.MuxedStream
	conn    *conn
	onClose func()
	closed  atomic.Bool
}

var (
	_ net.Conn      = (*Stream)(nil)
	_ io.ReadWriter = (*Stream)(nil)
)

// Peer returns who is at the other end, as proven when the connection was made and at each re-authentication since:
// one that shows another identity is refused, so this never changes.
func (s *Stream) Peer() Peer { return s.conn.peer }

// Read reads; the end of what the peer wrote is io.EOF, a reset or lost connection another error, one that was cut
// because an SVID ended wraps ErrExpired.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.inner.Read(p)
	return n, s.conn.expiry.explain(err)
}

// Write blocks while the peer's window is full. It keeps nothing of p. Its errors are Read's.
func (s *Stream) Write(p []byte) (int, error) {
	n, err := s.inner.Write(p)
	return n, s.conn.expiry.explain(err)
}

// WriteFrame is Write of header and then payload, which go to the kernel together where that can be. A panic in reading
// payload leaves the stream such that it can only be reset.
func (s *Stream) WriteFrame(header, payload []byte) (int, error) {
	if w, ok := s.inner.(interface {
		WriteFrame(header, payload []byte) (int, error)
	}); ok {
		n, err := w.WriteFrame(header, payload)
		return n, s.conn.expiry.explain(err)
	}
	n, err := s.Write(header)
	if err != nil {
		return n, err
	}
	m, err := s.Write(payload)
	return n + m, err
}

// Queues reports whether what is written waits in queues on its way to the peer; false where that is not known. While it does,
// the kernel takes little at a time, so that a Write ends when most of it has been sent. For the writer.
func (s *Stream) Queues() bool {
	q, ok := s.inner.(interface{ Queues() bool })
	return ok && q.Queues()
}

// CloseWrite ends our direction: the peer reads io.EOF after what was written.
func (s *Stream) CloseWrite() error { return s.inner.CloseWrite() }

// Close ends both directions. What was written is still sent, unless the Host is closed before.
func (s *Stream) Close() error {
	s.released()
	return s.inner.Close()
}

// Reset drops the stream at once: both sides' reads and writes fail, unsent data is lost.
func (s *Stream) Reset() error {
	s.released()
	return s.inner.Reset()
}

// Disconnect closes the stream's connection, with all its streams; others with the same peer stay.
func (s *Stream) Disconnect() error {
	s.released()
	if p := s.conn.parent; p != nil {
		_ = p.Close() // The other streams of the parent go with it.
	}
	return s.conn.Close()
}

func (s *Stream) released() {
	if s.closed.CompareAndSwap(false, true) && s.onClose != nil {
		s.onClose()
	}
}

// SetDeadline bounds reads and writes.
func (s *Stream) SetDeadline(t time.Time) error { return s.inner.SetDeadline(t) }

// SetReadDeadline bounds reads.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.inner.SetReadDeadline(t) }

// SetWriteDeadline bounds writes.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.inner.SetWriteDeadline(t) }

// LocalAddr returns the connection's local address.
func (s *Stream) LocalAddr() net.Addr { return s.conn.localAddr() }

// RemoteAddr returns the connection's remote address.
func (s *Stream) RemoteAddr() net.Addr { return s.conn.remoteAddr() }

// String names the peer and where it is.
func (s *Stream) String() string {
	return fmt.Sprintf("stream with %s at %s", s.Peer(), s.RemoteAddr())
}
