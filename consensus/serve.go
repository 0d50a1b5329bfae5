package consensus

import (
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// maxRequest bounds how long one SN works on another's request.
const maxRequest = time.Minute

// begin notes a request of another SN, so that shutting down waits for it; false means that the group is shut down. Whoever began it
// calls serving.Done.
func (g *Group) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.streams == nil {
		return false
	}
	g.serving.Add(1)
	return true
}

// enter notes an accepted stream, so that shutting down closes it; false means that the group is shut down.
func (g *Group) enter(conn net.Conn, peer Peer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.streams == nil {
		return false
	}
	g.streams[conn] = peer.PeerID
	g.serving.Add(1)
	return true
}

func (g *Group) leave(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.streams, conn)
	g.serving.Done()
}

// closeStreams ends all accepted streams; serving tells when their handlers have ended.
func (g *Group) closeStreams() {
	g.mu.Lock()
	for conn := range g.streams {
		_ = conn.Close()
	}
	g.streams = nil
	g.mu.Unlock()
}

// ownStats tells the leader how far this server's log is.
func (g *Group) ownStats() serverStats {
	s := serverStats{LastIndex: g.raft.LastIndex(), Applied: g.Index()}
	s.LastTerm = logTerm(g.raft)
	s.LedgerBehind = g.LedgerComplete() != nil
	if g.raft.State() != raft.Leader {
		if last := g.raft.LastContact(); !last.IsZero() {
			s.LastContactMS = max(time.Since(last).Milliseconds(), 0)
		} else {
			s.LastContactMS = -1
		}
	}
	return s
}
