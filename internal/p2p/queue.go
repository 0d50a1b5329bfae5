package p2p

import (
	"math"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// queueDelay is by how much a round trip takes longer than the shortest of the last minutes where there is a queue that matters. The
	// host of 64 streams on loopback, with both cores busy, answers up to 15 ms late without any.
	queueDelay = 20 * time.Millisecond
	// drainedDelay is by how little there is none any more: between the two all stays as it was, since what is done about a queue
	// makes it short.
	drainedDelay = 5 * time.Millisecond
	// unsentBytes is how much of what was written may wait in the kernel to be sent, where there is a queue. As little as TCP
	// needs to go on until the next Write: what is not handed over yet can still give way to another stream.
	unsentBytes = 64 << 10
)

// queues is Stream's Queues.
func (w *wire) queues() bool {
	raw := rawConn(w.Conn)
	if raw == nil {
		return false
	}
	queued := false
	_ = raw.Control(func(fd uintptr) { // An error means that it is closed.
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		by := queueDelay
		if w.fewUnsent {
			by = drainedDelay
		}
		queued = delayed(info.Rtt, info.Min_rtt, by)
		if queued == w.fewUnsent {
			return
		}
		limit := 0 // the system's, which is none unless somebody has set it
		if queued {
			limit = unsentBytes
		}
		if unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, limit) == nil {
			w.fewUnsent = queued
		}
	})
	return queued
}

// delayed judges round trips in microseconds: the smoothed one of now and the shortest of the last minutes, which is the largest
// number until there is one, and 0 from kernels that do not tell.
func delayed(now, shortest uint32, by time.Duration) bool {
	return shortest != 0 && shortest != math.MaxUint32 && time.Duration(now)*time.Microsecond > time.Duration(shortest)*time.Microsecond+by
}

// rawConn returns the socket beneath a connection that was dialled or accepted; nil if there is none.
func rawConn(c net.Conn) syscall.RawConn {
	if g, ok := c.(gatedConn); ok {
		c = g.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}
