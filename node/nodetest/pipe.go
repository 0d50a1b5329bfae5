package nodetest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes a stream holds that the other side has not read.
const window = 256 << 10

// stream is one stream between two hosts.
type stream struct {
	network *Network
	ends    [2]*host
	service string
	halves  [2]*half // what ends[i] reads
	left    int      // ends that have closed; guarded by Network.mu
}

func newStream(n *Network, from, to *host, service string) *stream {
	w := &stream{network: n, ends: [2]*host{from, to}, service: service}
	for i := range w.halves {
		w.halves[i] = &half{wake: make(chan struct{})}
	}
	return w
}

// snap ends the stream on both sides at once.
func (w *stream) snap(err error) {
	for _, h := range w.halves {
		h.set(func() {
			if h.broken == nil {
				h.broken = err
			}
		})
	}
}

// chunk is some bytes on their way.
type chunk struct {
	b  []byte
	at time.Time // when it arrives
}

// half is one direction of a stream.
type half struct {
	mu       sync.Mutex // guards what follows
	wake     chan struct{}
	chunks   []chunk
	size     int
	ended    bool // the writer has closed its side
	endAt    time.Time
	left     bool  // the reader is gone
	closed   error // what the reader gets once it has closed its side itself
	wclosed  error // the same for the writer
	reset    bool  // the writer has dropped everything
	broken   error // the stream is no more
	readEnd  time.Time
	writeEnd time.Time
}

func (h *half) set(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn()
	h.changeLocked()
}

func past(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// read takes what has arrived; while the link is down nothing does.
func (h *half) read(p []byte, link func() linkState) (int, error) {
	for {
		l := link()
		n, again, until, err := h.tryRead(p, l)
		if again == nil {
			return n, err
		}
		await(again, l.changed, until)
	}
}

// tryRead returns a channel that is closed at the next change, and the time of the next arrival, if it has no answer yet.
func (h *half) tryRead(p []byte, l linkState) (n int, again <-chan struct{}, until time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	until = h.readEnd
	switch {
	case h.closed != nil:
		return 0, nil, until, h.closed
	case h.broken != nil:
		return 0, nil, until, h.broken
	case past(h.readEnd, now):
		return 0, nil, until, os.ErrDeadlineExceeded
	case !l.up:
	case h.reset:
		return 0, nil, until, syscall.ECONNRESET
	case len(h.chunks) > 0 && !h.chunks[0].at.After(now):
		n := copy(p, h.chunks[0].b)
		if h.chunks[0].b = h.chunks[0].b[n:]; len(h.chunks[0].b) == 0 {
			h.chunks = h.chunks[1:]
		}
		h.size -= n
		h.changeLocked()
		return n, nil, until, nil
	case len(h.chunks) > 0:
		until = earlier(until, h.chunks[0].at)
	case h.ended && !h.endAt.After(now):
		return 0, nil, until, io.EOF
	case h.ended:
		until = earlier(until, h.endAt)
	}
	return 0, h.wake, until, nil
}

// write hands bytes to the link; while the link is down the window fills.
func (h *half) write(p []byte, link func() linkState) (int, error) {
	done := 0
	for {
		l := link()
		n, again, until, err := h.tryWrite(p[done:], l)
		done += n
		if again == nil {
			return done, err
		}
		await(again, l.changed, until)
	}
}

// tryWrite is tryRead for writing.
func (h *half) tryWrite(p []byte, l linkState) (n int, again <-chan struct{}, until time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	switch {
	case h.wclosed != nil:
		return 0, nil, h.writeEnd, h.wclosed
	case h.broken != nil:
		return 0, nil, h.writeEnd, h.broken
	case l.up && h.left:
		return 0, nil, h.writeEnd, syscall.EPIPE
	case past(h.writeEnd, now):
		return 0, nil, h.writeEnd, os.ErrDeadlineExceeded
	}
	if n = min(len(p), window-h.size); n > 0 {
		h.chunks = append(h.chunks, chunk{b: bytes.Clone(p[:n]), at: h.arrival(now.Add(l.delay))})
		h.size += n
		h.changeLocked()
	}
	if n == len(p) {
		return n, nil, h.writeEnd, nil
	}
	return n, h.wake, h.writeEnd, nil
}

func (h *half) changeLocked() {
	close(h.wake)
	h.wake = make(chan struct{})
}

// arrival keeps the order of what is on its way.
func (h *half) arrival(at time.Time) time.Time {
	if n := len(h.chunks); n > 0 && h.chunks[n-1].at.After(at) {
		return h.chunks[n-1].at
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func await(wake, changed <-chan struct{}, until time.Time) {
	if until.IsZero() {
		select {
		case <-wake:
		case <-changed:
		}
		return
	}
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-wake:
	case <-changed:
	case <-t.C:
	}
}

// conn is one end of a wire. It is net.Conn and exchange.Stream.
type conn struct {
	wire *stream
	side int
	once sync.Once
}

var _ net.Conn = (*conn)(nil)

func (c *conn) in() *half            { return c.wire.halves[c.side] }
func (c *conn) out() *half           { return c.wire.halves[1-c.side] }
func (c *conn) local() *host         { return c.wire.ends[c.side] }
func (c *conn) remote() *host        { return c.wire.ends[1-c.side] }
func (c *conn) link() linkState      { return c.wire.network.state(c.local().name, c.remote().name) }
func (c *conn) LocalAddr() net.Addr  { return addr(c.local().name) }
func (c *conn) RemoteAddr() net.Addr { return addr(c.remote().name) }

func (c *conn) Read(p []byte) (int, error)  { return c.in().read(p, c.link) }
func (c *conn) Write(p []byte) (int, error) { return c.out().write(p, c.link) }

// CloseWrite ends this side's direction; what was written arrives.
func (c *conn) CloseWrite() error {
	delay := c.link().delay
	c.out().set(func() {
		if c.out().wclosed == nil {
			c.out().ended, c.out().wclosed, c.out().endAt = true, net.ErrClosed, c.out().arrival(time.Now().Add(delay))
		}
	})
	return nil
}

// Close ends both directions; what was written arrives.
func (c *conn) Close() error {
	defer c.once.Do(func() { c.wire.network.leave(c.wire) })
	err := c.CloseWrite()
	c.in().set(func() { c.in().closed, c.in().left = net.ErrClosed, true })
	return err
}

// Reset drops everything.
func (c *conn) Reset() error {
	defer c.once.Do(func() { c.wire.network.leave(c.wire) })
	c.out().set(func() { c.out().reset, c.out().wclosed, c.out().chunks, c.out().size = true, net.ErrClosed, nil, 0 })
	c.in().set(func() { c.in().closed, c.in().left = net.ErrClosed, true })
	return nil
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in().set(func() { c.in().readEnd = t })
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out().set(func() { c.out().writeEnd = t })
	return nil
}

// addr names a host.
type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }
