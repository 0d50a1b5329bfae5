package exchange

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

// counters of one attempt. The zero value counts only.
type counters struct {
	sent, received atomic.Uint64
	fed            atomic.Int64 // when the newest bytes of a model came, from anybody, in Unix nanoseconds
	patience       time.Time    // until then a silent peer is not late while others' bytes come; set before any stream joins
}

// more is the least read that shows that models are on their way. Frames that say nothing but that a peer lives are shorter.
const more = 512

// busy tells whether this node is so taken up with what others send that a silent peer's turn may be still to come.
func (c *counters) busy(stall time.Duration) bool {
	now := time.Now()
	return now.Before(c.patience) && now.Sub(time.Unix(0, c.fed.Load())) < stall/4
}

// slack is how long a peer may take to read something.
func (c *counters) slack(stall time.Duration) time.Duration {
	return max(stall, min(3*stall, time.Until(c.patience)))
}

// frameWriter is a Stream that sends header and payload as one.
type frameWriter interface {
	WriteFrame(header, payload []byte) (int, error)
}

// conn adds framing, stall detection and counting to a stream. One goroutine
// reads and one writes.
type conn struct {
	s     Stream
	stall time.Duration
	count atomic.Pointer[counters]
	armed time.Time    // when the reader last set its deadline
	torn  bool         // the writer broke off within a frame
	held  *[]byte      // of the writer: frames that go with what it writes next, from the pool; nil: none
	since atomic.Int64 // when the reader began to wait for a byte that is owed, in Unix nanoseconds; 0: it does not wait

	mu      sync.Mutex // guards winding, so that no deadline moves back after wind
	winding bool
}

func newConn(s Stream, stall time.Duration) *conn {
	c := &conn{s: s, stall: stall}
	c.count.Store(new(counters))
	return c
}

// wind bounds everything that still happens on the stream, now and later.
func (c *conn) wind(grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.winding {
		return
	}
	c.winding = true
	end := time.Now().Add(grace)
	_ = c.s.SetReadDeadline(end) // An error means the stream is gone, which ends it too.
	_ = c.s.SetWriteDeadline(end)
}

func (c *conn) deadline(set func(time.Time) error, t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.winding {
		_ = set(t) // An error shows at the read or write that follows.
	}
}

// patient removes the read deadline: nothing is owed.
func (c *conn) patient() {
	c.armed = time.Time{}
	c.deadline(c.s.SetReadDeadline, time.Time{})
}

// Read fails when no byte came for the stall time, and nobody else's either. The deadline is moved only
// when an eighth of it has passed, so reads stay cheap.
func (c *conn) Read(p []byte) (int, error) {
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
		if n > 0 || !late(err) || !count.busy(c.stall) || c.wound() {
			return n, err
		}
		now = time.Now()
	}
}

func (c *conn) wound() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.winding
}

func (c *conn) rawRead(p []byte) (int, error) {
	n, err := c.s.Read(p)
	c.count.Load().received.Add(uint64(n))
	return n, err
}

// late reports whether an error is that a deadline has passed. Streams of their own say so as sockets do, others as yamux does.
func late(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// reader is c with or without stall detection.
func (c *conn) reader(owed bool) io.Reader {
	if owed {
		return c
	}
	return readerFunc(c.rawRead)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// next reads a header. io.EOF means the end between two frames.
func (c *conn) next(owed bool) (header, error) {
	var b [headerSize]byte
	if _, err := io.ReadFull(c.reader(owed), b[:]); err != nil {
		return header{}, err
	}
	return decodeHeader(b), nil
}

// payload reads the rest of a small frame.
func (c *conn) payload(h header, limit uint32) ([]byte, error) {
	if h.length > limit {
		return nil, fmt.Errorf("%w: %d bytes of kind %d, at most %d are allowed", errFrame, h.length, h.kind, limit)
	}
	b := make([]byte, h.length)
	_, err := io.ReadFull(c, b)
	return b, err
}

// writeSize is how many bytes a peer must take within the stall time: a stream that encrypts in records can't go on after
// a deadline, so a leaf at once would make slow links look dead.
const writeSize = 64 << 10

// heldBeside is how much more than a bundle's leaves is held as a rule: their headers and a few short frames.
const heldBeside = 4 << 10

// holds are buffers for what connections hold.
var holds = sync.Pool{New: func() any { return new([]byte) }}

// hold takes whole frames that go with what is written next, so that a short model is one write and not three. Fill appends them, n bytes at
// most; of an error nothing is held. Who then waits for what the peer needs these frames for flushes before.
func (c *conn) hold(n int, fill func(b []byte) ([]byte, error)) error {
	if c.held == nil {
		c.held = holds.Get().(*[]byte)
		*c.held = (*c.held)[:0]
	}
	b, err := fill(slices.Grow(*c.held, n))
	if err == nil {
		*c.held = b
	}
	return err
}

// holdFrames is hold of frames that are there.
func (c *conn) holdFrames(b []byte) {
	_ = c.hold(len(b), func(held []byte) ([]byte, error) { return append(held, b...), nil })
}

// holding tells whether something is held.
func (c *conn) holding() bool { return c.held != nil && len(*c.held) > 0 }

// flush writes what is held.
func (c *conn) flush(bounded bool) error {
	if !c.holding() {
		return nil
	}
	return c.write(nil, bounded)
}

// write sends whole frames, after what is held. If bounded, it fails when the peer takes no byte
// for the stall time; else it waits as long as the stream lives.
func (c *conn) write(b []byte, bounded bool) error { return c.writeFrame(nil, b, bounded) }

// writeFrame is write of a header and a payload. If reading the payload panics the stream is torn.
func (c *conn) writeFrame(head, b []byte, bounded bool) error {
	if c.holding() {
		held := c.held
		defer holds.Put(held)
		*held = append(*held, head...)
		head, c.held = *held, nil
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
		c.count.Load().sent.Add(uint64(n))
		started = started || n > 0
		k := min(n, len(head))
		head, b = head[k:], b[n-k:]
		if err == nil {
			continue
		}
		if n > 0 && !c.wound() && errors.Is(err, os.ErrDeadlineExceeded) {
			continue // Slow is not dead.
		}
		c.torn = started
		return err
	}
	c.torn = false
	return nil
}

// writePiece writes some of head and b.
func (c *conn) writePiece(head, b []byte) (int, error) {
	piece := min(len(b), writeSize)
	if len(b)-piece <= headerSize {
		piece = len(b) // A leaf is a power of two and may have its header with it: no write for its last nine bytes.
	}
	switch {
	case len(head) == 0:
		return c.s.Write(b[:piece])
	case len(head) > writeSize+heldBeside: // a large leaf is held
		return c.s.Write(head[:writeSize])
	}
	if w, ok := c.s.(frameWriter); ok {
		return w.WriteFrame(head, b[:piece])
	}
	return c.s.Write(head)
}

// farewell says why this side ends and closes its direction; after wind.
func (c *conn) farewell(f failFrame) {
	if !c.torn {
		_ = c.write(f.append(nil), false) // Best effort: the peer may be the one that died.
	}
	_ = c.s.CloseWrite()
}

// drain discards what still comes until the end of the stream or of the grace.
func (c *conn) drain() {
	_, _ = io.Copy(io.Discard, readerFunc(c.rawRead))
}
