package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// maxInFlight bounds the requests that one SN may have open on one link; the next waits in the stream.
const maxInFlight = 32

// serveForward answers the requests of one SN until its stream ends.
func (g *Group) serveForward(conn net.Conn, peer Peer) {
	defer func() { _ = conn.Close() }()
	if peer.Role != naming.RoleSN {
		g.log.Warn("forward stream refused", "peer", peer.PeerID, "role", peer.Role)
		return
	}
	if !g.enter(conn, peer) {
		return
	}
	defer g.leave(conn)
	ctx, cancel := context.WithCancel(context.Background())
	var requests sync.WaitGroup
	defer requests.Wait()
	defer cancel() // who asked has gone: nobody reads the answers

	var write sync.Mutex
	slots := make(chan struct{}, maxInFlight)
	for {
		f, err := readFrame(conn)
		if err != nil {
			if errors.Is(err, errFrame) {
				g.log.Warn("forward stream ended", "peer", peer.PeerID, "err", err)
			}
			return
		}
		if !g.allow(peer) { // also of a stream that was opened before its sender was removed
			g.log.Warn("forward stream refused: not an SN of the configuration", "peer", peer.PeerID)
			return
		}
		slots <- struct{}{}
		requests.Go(func() {
			defer func() { <-slots }()
			requestCtx, done := context.WithTimeout(ctx, requestTimeout(f.number))
			defer done()
			answer := g.answer(requestCtx, peer, f)
			if err := writeFrame(conn, &write, answer); err != nil {
				_ = conn.Close()
			}
		})
	}
}

// answer does what one request asks for.
func (g *Group) answer(ctx context.Context, peer Peer, f frame) frame {
	body, index, err := g.dispatch(ctx, peer, f)
	if err == nil {
		return frame{id: f.id, kind: frameOK, number: index, body: body}
	}
	w, err := json.Marshal(toWire(err))
	if err != nil {
		w = []byte(`{"code":"other"}`)
	}
	return frame{id: f.id, kind: frameError, body: w}
}

func (g *Group) dispatch(ctx context.Context, peer Peer, f frame) (body []byte, index uint64, err error) {
	switch f.kind {
	case framePropose:
		// A command that does not decode must not reach the log, where it would halt every node.
		c, err := state.DecodeCommand(f.body)
		if err != nil {
			return nil, 0, &RemoteError{Reason: state.ReasonBadCommand, Message: err.Error()}
		}
		if !mayForward(c) {
			g.log.Warn("command refused that no SN forwards", "peer", peer.PeerID, "command", c.Type())
			return nil, 0, &RemoteError{Reason: "NOT_FORWARDED", Message: c.Type() + " is for the leader alone to propose"}
		}
		a, err := g.proposeVetted(ctx, f.body, c)
		if err != nil {
			return nil, 0, err
		}
		body, err = json.Marshal(a.result)
		return body, a.index, err
	case frameCall:
		kind, payload, err := decodeCall(f.body)
		if err != nil {
			return nil, 0, err
		}
		body, err = g.callLocal(ctx, peer, kind, payload)
		return body, 0, err
	}
	return nil, 0, fmt.Errorf("%w: request type %d", errFrame, f.kind)
}

// forwarded are the commands that the leader takes from other SNs: what the API's callers ask of these. What is not here
// is decided by the leader itself, or takes a way of its own, as joins and bans do.
var forwarded = map[string]bool{
	state.RegisterNode{}.Type():   true, // of other roles than sn
	state.LeaveNode{}.Type():      true,
	state.ForgetNode{}.Type():     true,
	state.UnbanNode{}.Type():      true,
	state.AdmitNode{}.Type():      true,
	state.OpenSession{}.Type():    true,
	state.CloseSession{}.Type():   true,
	state.EndSession{}.Type():     true,
	state.CreateContract{}.Type(): true,
	state.RecordFetch{}.Type():    true,
	state.ResetContract{}.Type():  true,
	state.DeleteContract{}.Type(): true,
}

func mayForward(c state.Command) bool {
	if r, ok := c.(state.RegisterNode); ok && r.Node.Role == naming.RoleSN {
		return false // it joins
	}
	return forwarded[c.Type()]
}

// HandleForward has fn answer SendToLeader's requests of a kind while this node is the leader. It is called in the
// asking side's goroutine or one of its own, so fn must be safe for concurrent use; a later call replaces fn. An error
// of fn arrives as *RemoteError, or as what it is if it is a sentinel of this package or a *state.Error.
func (g *Group) HandleForward(kind string, fn func(ctx context.Context, from Peer, payload []byte) ([]byte, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handlers[kind] = fn
}

func (g *Group) callLocal(ctx context.Context, from Peer, kind string, payload []byte) ([]byte, error) {
	if g.raft.State() != raft.Leader {
		return nil, ErrNotLeader
	}
	g.mu.Lock()
	fn := g.handlers[kind]
	g.mu.Unlock()
	if fn == nil {
		return nil, &RemoteError{Reason: "UNKNOWN_KIND", Message: fmt.Sprintf("no handler for %q on the leader", kind)}
	}
	return fn(ctx, from, payload)
}

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
