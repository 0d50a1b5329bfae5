package exchange

import (
	"sync"

	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// maxIdle is how many streams are kept per line between attempts.
const maxIdle = 4

// line is what idle streams are kept by: one that shares a connection is not for bulk.
type line struct {
	node string
	bulk bool
}

// idleStreams are kept open between attempts. The zero value has none.
type idleStreams struct {
	mu      sync.Mutex // guards all below
	streams map[line][]*wire.Conn
	closed  bool
}

// take returns a stream that is kept open, or nil.
func (s *idleStreams) take(to line) *wire.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := s.streams[to]
	if len(conns) == 0 {
		return nil
	}
	c := conns[len(conns)-1]
	s.streams[to] = conns[:len(conns)-1]
	return c
}

// put keeps a stream open, or closes it if there are enough.
func (s *idleStreams) put(to line, c *wire.Conn) {
	s.mu.Lock()
	keep := !s.closed && len(s.streams[to]) < maxIdle
	if keep {
		if s.streams == nil {
			s.streams = make(map[line][]*wire.Conn)
		}
		s.streams[to] = append(s.streams[to], c)
	}
	s.mu.Unlock()
	if !keep {
		c.Close()
	}
}

// close closes all streams, and those that are put from here on.
func (s *idleStreams) close() {
	s.mu.Lock()
	streams := s.streams
	s.streams, s.closed = nil, true
	s.mu.Unlock()
	for _, conns := range streams {
		for _, c := range conns {
			c.Close()
		}
	}
}
