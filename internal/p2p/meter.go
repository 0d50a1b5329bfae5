package p2p

import (
	"encoding/binary"
	"net"
	"sync"
)

const (
	// frameCost is what yamux takes for a frame of data beside its bytes, which it keeps in a buffer of its own until they are read.
	frameCost = 64
	// smallFrame is below how many bytes that matters.
	smallFrame = 4 << 10
	// meterStep is in how many bytes frames are charged, so that not each takes its turn at the memory of all.
	meterStep = 4 << 10
	// closedCost is for a stream that was closed here and not at the peer, which may never do so.
	closedCost = 256
)

// meter is a connection with yamux on it, whose peer is charged for the frames that nobody has read, and not for their bytes alone:
// in frames of one byte a full window would take 40 times its size. It reads along what yamux reads and writes, since yamux
// says nothing of frames.
type meter struct {
	net.Conn
	share   *share
	in, out frames

	mu      sync.Mutex
	streams map[uint32]*unread // those that are open, by number
}

// unread is a stream's small frames. When yamux tells the peer of more room, at least half a window was read since it did so last,
// so that of what came three such periods ago nothing is left.
type unread struct {
	periods         [3]int64 // frames, the newest period first
	charged         int64    // bytes
	closed, endless bool     // the peer will send no more; nothing will be sent to it
}

func newMeter(c net.Conn, s *share) *meter {
	return &meter{Conn: c, share: s, streams: map[uint32]*unread{}}
}

// Read implements net.Conn.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if e := m.in.follow(p[:n], m.received); e != nil {
		return 0, e
	}
	return n, err
}

// Write implements net.Conn.
func (m *meter) Write(p []byte) (int, error) {
	if err := m.out.follow(p, m.sent); err != nil { // before the peer can answer
		return 0, err
	}
	return m.Conn.Write(p)
}

// received takes note of a frame that came.
func (m *meter) received(f frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.stream(f)
	if u == nil {
		return nil // yamux throws it away
	}
	if f.kind == frameData && f.length > 0 && f.length < smallFrame {
		u.periods[0]++
	}
	u.closed = u.closed || f.flags&flagFIN != 0
	return m.settle(f, u)
}

// sent takes note of a frame that is about to go.
func (m *meter) sent(f frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.stream(f)
	if u == nil {
		return nil
	}
	if f.kind == frameWindow && f.flags == 0 && f.length > 0 {
		u.periods = [3]int64{0, u.periods[0], u.periods[1]}
	}
	u.endless = u.endless || f.flags&flagFIN != 0
	return m.settle(f, u)
}

// stream returns that of a frame, which may begin it; nil if it is not open. The caller holds mu.
func (m *meter) stream(f frame) *unread {
	if f.kind != frameData && f.kind != frameWindow {
		return nil
	}
	u := m.streams[f.stream]
	if u == nil && f.flags&flagSYN != 0 {
		u = &unread{}
		m.streams[f.stream] = u
	}
	return u
}

// settle charges the peer for what may be unread. The caller holds mu.
func (m *meter) settle(f frame, u *unread) error {
	want := (u.periods[0] + u.periods[1] + u.periods[2]) * frameCost / meterStep * meterStep
	if u.endless {
		want += closedCost
	}
	if u.closed && u.endless || f.flags&flagRST != 0 {
		delete(m.streams, f.stream)
		want = 0
	}
	more := want - u.charged
	u.charged = want
	if more < 0 {
		m.share.give(-more)
	}
	if more > 0 {
		return m.share.take(more)
	}
	return nil
}

// What a frame of yamux says in its header.
type frame struct {
	kind   byte
	flags  uint16
	stream uint32
	length uint32 // of data: how many bytes follow
}

const (
	frameHeader      = 12
	frameData   byte = 0
	frameWindow byte = 1
	flagSYN          = 1
	flagFIN          = 4
	flagRST          = 8
)

// frames finds the headers in one direction of a connection.
type frames struct {
	head [frameHeader]byte
	have int    // bytes of head
	skip uint32 // bytes of data that are still to come
}

// follow calls see for each header that is complete with p.
func (f *frames) follow(p []byte, see func(frame) error) error {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(len(p), int(f.skip))
			p, f.skip = p[n:], f.skip-uint32(n) //nolint:gosec // n is at most skip
			continue
		}
		n := copy(f.head[f.have:], p)
		p = p[n:]
		if f.have += n; f.have < frameHeader {
			return nil
		}
		f.have = 0
		h := frame{
			kind: f.head[1], flags: binary.BigEndian.Uint16(f.head[2:]), stream: binary.BigEndian.Uint32(f.head[4:]),
			length: binary.BigEndian.Uint32(f.head[8:]),
		}
		if h.kind == frameData {
			f.skip = h.length
		}
		if err := see(h); err != nil {
			return err
		}
	}
	return nil
}
