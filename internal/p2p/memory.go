package p2p

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/swarmd/swarmd/identity"
)

const (
	// memoryNamed bounds what peers with a SPIFFE ID of one node may make a host hold for them, memoryShared with one that
	// nodes share, memoryInAll all peers, in bytes: 256 KiB for each stream, as much as its window has grown beyond, and
	// dedicatedCost for each connection that carries one stream, with its reading ahead. Windows grow, and connections read
	// ahead, within half of it: that is 32 MiB for a node, 100 ms of 2.5 Gbit/s.
	memoryNamed  = 64 << 20
	memoryShared = 128 << 20
	memoryInAll  = 256 << 20
	// dedicatedCost is what TLS and its goroutines take for a connection.
	dedicatedCost = 64 << 10
	// initialPriority is that of yamux's reservation of a new stream's window, which it takes for granted.
	initialPriority = 255
	// memoryNotice is how often the log says that a connection was cut.
	memoryNotice = time.Minute
)

// MemoryLimits bound what peers may make a host hold for them, in bytes.
type MemoryLimits struct {
	// Named is for a SPIFFE ID that belongs to one node; 0: 64 MiB.
	Named int64
	// Shared is for one that many nodes have; 0: 128 MiB.
	Shared int64
	// InAll is for all peers; 0: 256 MiB.
	InAll int64
}

var errMemory = errors.New("too many bytes in flight with this SPIFFE ID")

// memory bounds what is held for peers. What must be taken is taken, and if that is too much another gives way: the connection
// that takes most of the source address that takes most, so that under a shared SPIFFE ID whoever takes much loses his own.
type memory struct {
	limits MemoryLimits
	log    *slog.Logger

	mu      sync.Mutex
	used    int64
	by      map[string]*account // by SPIFFE ID
	opened  uint64
	noticed time.Time
}

type account struct {
	limit, used int64
	shares      map[*share]struct{} // those that take anything
}

// share is what one connection takes.
type share struct {
	memory *memory
	id     identity.ID
	source netip.Prefix
	cut    func() // called in a goroutine of its own
	number uint64 // later ones have greater numbers
	taken  int64
	gone   bool // it has ended and is charged no more
}

func newMemory(limits MemoryLimits, log *slog.Logger) *memory {
	limits.Named, limits.Shared, limits.InAll = cmp.Or(limits.Named, memoryNamed), cmp.Or(limits.Shared, memoryShared), cmp.Or(limits.InAll, memoryInAll)
	return &memory{limits: limits, log: log, by: map[string]*account{}}
}

// open returns the share of a connection, which takes nothing yet.
func (m *memory) open(c *secureConn) *share {
	// Beneath TLS, whose farewell would wait for a peer that does not read.
	return m.add(c.remote.peer.Identity, c.RemoteAddr(), func() { _ = c.remote.socket.Close() })
}

func (m *memory) add(id identity.ID, from net.Addr, cut func()) *share {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened++
	return &share{memory: m, id: id, source: identity.SourceOf(from), cut: cut, number: m.opened}
}

// take charges n bytes, whoever must give way for them. It fails if that was the connection itself.
func (s *share) take(n int64) error {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.gone {
		return errMemory
	}
	a := m.charge(s, n)
	for a.used > a.limit {
		m.drop(a)
	}
	for m.used > m.limits.InAll {
		most := a
		for _, other := range m.by {
			if other.used > most.used {
				most = other
			}
		}
		m.drop(most)
	}
	if s.gone {
		return errMemory
	}
	return nil
}

// grow charges n bytes that one can do without if less than half of the limits is in use with them.
func (s *share) grow(n int64) bool {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	used, limit := n, m.limit(s.id)
	if a := m.by[s.id.String()]; a != nil {
		used += a.used
	}
	if s.gone || used > limit/2 || m.used+n > m.limits.InAll/2 {
		return false
	}
	m.charge(s, n)
	return true
}

// give takes back what was charged.
func (s *share) give(n int64) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if !s.gone {
		m.charge(s, -n)
	}
}

// leave takes back all, for good.
func (s *share) leave() {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(s)
}

// end is leave. The caller holds mu, as that of the following.
func (m *memory) end(s *share) {
	if !s.gone {
		m.charge(s, -s.taken)
		s.gone = true
	}
}

func (m *memory) limit(id identity.ID) int64 {
	if id.NodeName() != "" {
		return m.limits.Named
	}
	return m.limits.Shared
}

// charge books n bytes and returns the SPIFFE ID's account.
func (m *memory) charge(s *share, n int64) *account {
	key := s.id.String()
	a := m.by[key]
	if a == nil {
		a = &account{limit: m.limit(s.id), shares: map[*share]struct{}{}}
		m.by[key] = a
	}
	m.used += n
	a.used += n
	s.taken += n
	a.shares[s] = struct{}{}
	if s.taken == 0 {
		delete(a.shares, s)
	}
	if len(a.shares) == 0 {
		delete(m.by, key)
	}
	return a
}

// drop cuts the connection that gives way.
func (m *memory) drop(a *account) {
	bySource := map[netip.Prefix]int64{}
	for s := range a.shares {
		bySource[s.source] += s.taken
	}
	var out *share
	for s := range a.shares {
		if out == nil || cmp.Or(cmp.Compare(bySource[s.source], bySource[out.source]), cmp.Compare(s.taken, out.taken), cmp.Compare(out.number, s.number)) > 0 {
			out = s
		}
	}
	m.end(out)
	go out.cut()
	if now := time.Now(); now.Sub(m.noticed) >= memoryNotice {
		m.noticed = now
		m.log.Warn("too many bytes in flight with one SPIFFE ID: cutting the connection that takes most", "spiffe_id", out.id.String(), "limit", a.limit, "remote", out.source.String())
	}
}

// connScope makes the spans of a connection's streams.
type connScope struct {
	network.NullScope
	share *share
}

// BeginSpan begins that of a stream.
func (s *connScope) BeginSpan() (network.ResourceScopeSpan, error) {
	return &streamSpan{share: s.share}, nil
}

// streamSpan is the memory of one stream.
type streamSpan struct {
	network.NullScope
	share *share

	mu    sync.Mutex
	taken int64
	done  bool
}

// ReserveMemory takes a new stream's window or a greater one. Without the first yamux ends the connection, without the other
// the window stays as it is.
func (s *streamSpan) ReserveMemory(size int, priority uint8) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(size)
	switch {
	case s.done: // A reader may be late.
		return errMemory
	case priority < initialPriority:
		if !s.share.grow(n) {
			return errMemory
		}
	default:
		if err := s.share.take(n); err != nil {
			return err
		}
	}
	s.taken += n
	return nil
}

// Done gives back all. Calling it twice is no error.
func (s *streamSpan) Done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	s.share.give(s.taken)
	s.taken = 0
}
