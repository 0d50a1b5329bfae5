package consensus

import (
	"net"
	"sync"
)

// streams are those that other SNs have opened to this server, and their requests that it works on.
type streams struct {
	mu      sync.Mutex
	open    map[net.Conn]string // with the peer ID of their sender; nil once shut down
	serving sync.WaitGroup
}

func newStreams() *streams { return &streams{open: map[net.Conn]string{}} }

// begin notes a request of another SN, so that shutting down waits for it; false means that the group is shut down. Whoever began it
// calls end.
func (s *streams) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return false
	}
	s.serving.Add(1)
	return true
}

// enter notes an accepted stream, so that shutting down closes it; false means that the group is shut down.
func (s *streams) enter(conn net.Conn, peer Peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return false
	}
	s.open[conn] = peer.PeerID
	s.serving.Add(1)
	return true
}

func (s *streams) leave(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
	s.serving.Done()
}

// close ends all accepted streams; serving tells when their handlers have ended, see wait.
func (s *streams) close() {
	s.mu.Lock()
	for conn := range s.open {
		_ = conn.Close()
	}
	s.open = nil
	s.mu.Unlock()
}

// end is the counterpart of begin.
func (s *streams) end() { s.serving.Done() }

// wait returns when the handlers of all streams and requests have ended.
func (s *streams) wait() { s.serving.Wait() }

// closeOf ends the streams of the peers for whom out is true.
func (s *streams) closeOf(out func(peerID string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn, peerID := range s.open {
		if out(peerID) {
			_ = conn.Close()
		}
	}
}
