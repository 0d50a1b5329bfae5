package p2p

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/swarmd/swarmd/identity"
)

// metered is an end of a connection with yamux that charges what the other end, which writes frames of its own making, makes it
// hold. Room has an entry for each time that the hostile end was told of more.
func metered(t *testing.T, limit int64) (m *memory, mux network.MuxedConn, hostile net.Conn, room chan struct{}) {
	t.Helper()
	id, err := identity.ParseIDString("spiffe://own.example/swarm/sl/a")
	if err != nil {
		t.Fatal(err)
	}
	here, hostile := net.Pipe()
	m = newMemory(MemoryLimits{Named: limit, InAll: limit}, slog.New(slog.DiscardHandler))
	share := m.add(id, &net.TCPAddr{}, func() { _ = here.Close() })
	mux, err = muxerAmong(1).NewConn(newMeter(here, share), true, &connScope{share: share})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mux.Close(); _ = hostile.Close() })
	room = make(chan struct{}, 1<<10)
	go func() {
		var f frames
		b := make([]byte, 1<<10)
		for {
			n, err := hostile.Read(b)
			if err != nil {
				return
			}
			_ = f.follow(b[:n], func(f frame) error {
				if f.kind == frameWindow && f.flags == 0 {
					room <- struct{}{}
				}
				return nil
			})
		}
	}()
	return m, mux, hostile, room
}

func appendFrame(b []byte, f frame, data string) []byte {
	b = append(b, 0, f.kind)
	b = binary.BigEndian.AppendUint16(b, f.flags)
	b = binary.BigEndian.AppendUint32(b, f.stream)
	return append(binary.BigEndian.AppendUint32(b, f.length), data...)
}

// dribble sends so many bytes, each in a frame of its own, some thousand frames at once.
func dribble(c net.Conn, stream uint32, bytes int) error {
	var b []byte
	for range 4096 {
		b = appendFrame(b, frame{kind: frameData, stream: stream, length: 1}, "x")
	}
	const each = frameHeader + 1
	for ; bytes > 0; bytes -= len(b) / each {
		b = b[:min(len(b), bytes*each)]
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) inUse() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// TestFramesOfOneByteAreCharged: a window that is full of them takes up to forty times its size, and what it takes is what its peer
// is charged for, until they have been read.
func TestFramesOfOneByteAreCharged(t *testing.T) {
	const many = 64 << 10
	m, mux, hostile, room := metered(t, 1<<30)
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // What pools had kept is gone only now.
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before := heap()
	if _, err := hostile.Write(appendFrame(nil, frame{kind: frameWindow, flags: flagSYN, stream: 1}, "")); err != nil {
		t.Fatal(err)
	}
	s, err := mux.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	window := m.inUse()
	if err := dribble(hostile, 1, many); err != nil {
		t.Fatal(err)
	}
	took, charged := heap()-before, m.inUse()
	if took > charged+charged/4 {
		t.Errorf("%d bytes in frames of one took %d bytes, %d are charged", many, took, charged)
	}
	if _, err := io.CopyN(io.Discard, s, many); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 16<<10)
	for told := 0; told < 3; {
		if _, err := hostile.Write(appendFrame(nil, frame{kind: frameData, stream: 1, length: 16 << 10}, large)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, s, 16<<10); err != nil {
			t.Fatal(err)
		}
		select {
		case <-room:
			told++
		default:
		}
	}
	if now := m.inUse(); now > window+charged/4 { // The window may have grown.
		t.Errorf("%d bytes are charged for what has been read, beside the window's %d", now-window, window)
	}
	_ = s.Reset()
	if _, err := hostile.Write(appendFrame(nil, frame{kind: frameWindow, flags: flagRST, stream: 1}, "")); err != nil {
		t.Fatal(err)
	}
	if _, err := hostile.Write(appendFrame(nil, frame{kind: frameWindow, stream: 1}, "")); err != nil { // The one before has been looked at.
		t.Fatal(err)
	}
	if now := m.inUse(); now != 0 {
		t.Errorf("%d bytes are charged for a stream that has ended", now)
	}
}

// TestFramesOfOneByteCostTheConnection: they are bounded as other bytes that nobody reads.
func TestFramesOfOneByteCostTheConnection(t *testing.T) {
	m, _, hostile, _ := metered(t, 1<<20)
	if _, err := hostile.Write(appendFrame(nil, frame{kind: frameWindow, flags: flagSYN, stream: 1}, "")); err != nil {
		t.Fatal(err)
	}
	if err := dribble(hostile, 1, 256<<10-1); err == nil {
		t.Errorf("a whole window went in, %d bytes are charged", m.inUse())
	}
}

// TestStreamsThatThePeerLeavesOpenAreCharged: it never ends its direction of streams that this end has closed, which the muxer
// forgets then.
func TestStreamsThatThePeerLeavesOpenAreCharged(t *testing.T) {
	m, mux, hostile, _ := metered(t, 1<<20)
	for n := uint32(1); ; n += 2 {
		if n > 2<<20/closedCost*2 {
			t.Fatalf("%d bytes are charged for %d streams", m.inUse(), n/2)
		}
		if _, err := hostile.Write(appendFrame(nil, frame{kind: frameWindow, flags: flagSYN, stream: n}, "")); err != nil {
			return
		}
		s, err := mux.AcceptStream()
		if err != nil {
			return
		}
		_ = s.Close()
	}
}
