package wire

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Deadlines are those of net.Conn.
type Deadlines interface {
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Stream is one bidirectional byte stream to a peer. Close ends both
// directions and lets what was written arrive; Reset drops everything.
type Stream interface {
	io.ReadWriteCloser
	Deadlines
	CloseWrite() error
	Reset() error
}

// Counters of one attempt. The zero value counts only.
type Counters struct {
	Sent, Received atomic.Uint64
	fed            atomic.Int64 // when the newest bytes of a model came, from anybody, in Unix nanoseconds
	GraceUntil     time.Time    // until then a silent peer is not late while others' bytes come; set before any stream joins
}

// more is the least read that shows that models are on their way. Frames that say nothing but that a peer lives are shorter.
const more = 512

// busy reports whether this node is so taken up with what others send that a silent peer's turn may be still to come.
func (c *Counters) busy(stall time.Duration) bool {
	now := time.Now()
	return now.Before(c.GraceUntil) && now.Sub(time.Unix(0, c.fed.Load())) < stall/4
}

// slack is how long a peer may take to read something.
func (c *Counters) slack(stall time.Duration) time.Duration {
	return max(stall, min(3*stall, time.Until(c.GraceUntil)))
}

// frameWriter is a Stream that sends header and payload as one.
type frameWriter interface {
	WriteFrame(header, payload []byte) (int, error)
}

// queuer is a Stream that knows whether what it sends waits in a queue on its way, because the link has more to carry than it can.
type queuer interface{ Queues() bool }

// Conn adds framing, stall detection and counting to a stream. One goroutine
// reads and one writes.
type Conn struct {
	s        Stream
	stall    time.Duration
	count    atomic.Pointer[Counters]
	armed    time.Time    // when the reader last set its deadline
	torn     bool         // the writer broke off within a frame
	buffered *[]byte      // of the writer: frames that go with what it writes next, from the pool; nil: none
	since    atomic.Int64 // when the reader began to wait for a byte that is owed, in Unix nanoseconds; 0: it does not wait

	mu     sync.Mutex // guards ending, so that no deadline is moved after EndWithin
	ending bool
}

// NewConn returns the connection on a stream that is silent for the stall time at most while something is owed.
func NewConn(s Stream, stall time.Duration) *Conn {
	c := &Conn{s: s, stall: stall}
	c.count.Store(new(Counters))
	return c
}

// CountIn adds what moves from now on to these counters.
func (c *Conn) CountIn(to *Counters) { c.count.Store(to) }

// OwedSince returns since when a byte that is owed has been awaited, the zero time if none is.
func (c *Conn) OwedSince() time.Time {
	if since := c.since.Load(); since != 0 {
		return time.Unix(0, since)
	}
	return time.Time{}
}

// Queues reports whether what is sent waits in a queue on its way, as far as the stream knows.
func (c *Conn) Queues() bool {
	q, ok := c.s.(queuer)
	return ok && q.Queues()
}

// Reset drops the stream.
func (c *Conn) Reset() { _ = c.s.Reset() }

// Close ends the stream.
func (c *Conn) Close() { _ = c.s.Close() }

// EndWithin bounds everything that still happens on the stream, now and later.
func (c *Conn) EndWithin(grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return
	}
	c.ending = true
	end := time.Now().Add(grace)
	_ = c.s.SetReadDeadline(end) // An error means the stream is gone, which ends it too.
	_ = c.s.SetWriteDeadline(end)
}

func (c *Conn) deadline(set func(time.Time) error, t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ending {
		_ = set(t) // An error shows at the read or write that follows.
	}
}

// NoDeadline removes the read deadline: nothing is owed.
func (c *Conn) NoDeadline() {
	c.armed = time.Time{}
	c.deadline(c.s.SetReadDeadline, time.Time{})
}

// Read fails when no byte came for the stall time, and nobody else's either. The deadline is moved only
// when an eighth of it has passed, so reads stay cheap.
func (c *Conn) Read(p []byte) (int, error) {
	now := time.Now()
	c.since.Store(now.UnixNano())
	defer c.since.Store(0)
	for {
		if now.Sub(c.armed) >= c.stall/8 {
			c.armed = now
			c.deadline(c.s.SetReadDeadline, now.Add(c.stall))
		}
		n, err := c.rawRead(p)
		count := c.count.Load()
		if n >= more {
			count.fed.Store(time.Now().UnixNano())
		}
		if n > 0 || !Late(err) || !count.busy(c.stall) || c.isEnding() {
			return n, err
		}
		now = time.Now()
	}
}

func (c *Conn) isEnding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}

func (c *Conn) rawRead(p []byte) (int, error) {
	n, err := c.s.Read(p)
	c.count.Load().Received.Add(uint64(n))
	return n, err
}

// Late reports whether an error is that a deadline has passed. Streams of their own say so as sockets do, others as yamux does.
func Late(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// Brief is a short text for errors that users meet often.
func Brief(err error) string {
	if e, ok := errors.AsType[interface {
		error
		Brief() string
	}](err); ok {
		return e.Brief()
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return "the stream ended"
	case Late(err):
		return "no byte came in time"
	}
	return err.Error()
}

// reader is c with or without stall detection.
func (c *Conn) reader(owed bool) io.Reader {
	if owed {
		return c
	}
	return readerFunc(c.rawRead)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Next reads a header. io.EOF means the end between two frames.
func (c *Conn) Next(owed bool) (Header, error) {
	var b [HeaderSize]byte
	if _, err := io.ReadFull(c.reader(owed), b[:]); err != nil {
		return Header{}, err
	}
	return DecodeHeader(b), nil
}

// Payload reads the rest of a small frame.
func (c *Conn) Payload(h Header, limit uint32) ([]byte, error) {
	if h.Length > limit {
		return nil, fmt.Errorf("%w: %d bytes of kind %d, at most %d are allowed", ErrFrame, h.Length, h.Kind, limit)
	}
	b := make([]byte, h.Length)
	_, err := io.ReadFull(c, b)
	return b, err
}

// WriteSize is how many bytes a peer must take within the stall time: a stream that encrypts in records can't go on after
// a deadline, so a leaf at once would make slow links look dead.
const WriteSize = 64 << 10

// bufferSlack is how much more than a bundle's leaves is buffered as a rule: their headers and a few short frames.
const bufferSlack = 4 << 10

// writeBuffers is the pool of the buffers of all connections.
var writeBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Buffer appends whole frames to those that go with the next write, so that a short model takes one write and not three. Fill appends
// n bytes at most; if it fails nothing is added. A caller that waits for an answer to these frames must call Flush first.
func (c *Conn) Buffer(n int, fill func(b []byte) ([]byte, error)) error {
	if c.buffered == nil {
		c.buffered = writeBuffers.Get().(*[]byte)
		*c.buffered = (*c.buffered)[:0]
	}
	b, err := fill(slices.Grow(*c.buffered, n))
	if err == nil {
		*c.buffered = b
	}
	return err
}

// BufferFrames is Buffer for frames that exist.
func (c *Conn) BufferFrames(b []byte) {
	_ = c.Buffer(len(b), func(buffered []byte) ([]byte, error) { return append(buffered, b...), nil })
}

// HasBuffered reports whether frames are buffered.
func (c *Conn) HasBuffered() bool { return c.buffered != nil && len(*c.buffered) > 0 }

// Flush writes the buffered frames.
func (c *Conn) Flush(bounded bool) error {
	if !c.HasBuffered() {
		return nil
	}
	return c.Write(nil, bounded)
}

// Write sends the buffered frames and then b, which holds whole frames. If bounded, it fails when the peer takes no byte
// for the stall time; else it waits as long as the stream lives.
func (c *Conn) Write(b []byte, bounded bool) error { return c.WriteFrame(nil, b, bounded) }

// WriteFrame is Write for a header and a payload. If reading the payload panics the stream is torn.
func (c *Conn) WriteFrame(head, b []byte, bounded bool) error {
	if c.HasBuffered() {
		buffered := c.buffered
		defer writeBuffers.Put(buffered)
		*buffered = append(*buffered, head...)
		head, c.buffered = *buffered, nil
	}
	c.torn = true
	started := false
	for len(head)+len(b) > 0 {
		end := time.Time{}
		if bounded {
			end = time.Now().Add(c.count.Load().slack(c.stall))
		}
		c.deadline(c.s.SetWriteDeadline, end)
		n, err := c.writePiece(head, b)
		c.count.Load().Sent.Add(uint64(n))
		started = started || n > 0
		k := min(n, len(head))
		head, b = head[k:], b[n-k:]
		if err == nil {
			continue
		}
		if n > 0 && !c.isEnding() && errors.Is(err, os.ErrDeadlineExceeded) {
			continue // Slow is not dead.
		}
		c.torn = started
		return err
	}
	c.torn = false
	return nil
}

// writePiece writes some of head and b.
func (c *Conn) writePiece(head, b []byte) (int, error) {
	piece := min(len(b), WriteSize)
	if len(b)-piece <= HeaderSize {
		piece = len(b) // A leaf is a power of two and may have its header with it: no write for its last nine bytes.
	}
	switch {
	case len(head) == 0:
		return c.s.Write(b[:piece])
	case len(head) > WriteSize+bufferSlack: // a large leaf is buffered
		return c.s.Write(head[:WriteSize])
	}
	if w, ok := c.s.(frameWriter); ok {
		return w.WriteFrame(head, b[:piece])
	}
	return c.s.Write(head)
}

// CloseWith says why this side ends and closes its direction. EndWithin must have been called.
func (c *Conn) CloseWith(f Fail) {
	if !c.torn {
		_ = c.Write(f.Append(nil), false) // Best effort: the peer may be the one that died.
	}
	_ = c.s.CloseWrite()
}

// Drain discards what still comes until the end of the stream or of the grace.
func (c *Conn) Drain() {
	_, _ = io.Copy(io.Discard, readerFunc(c.rawRead))
}
