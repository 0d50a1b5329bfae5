package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/swarmd/swarmd/consensus/peerconn"
	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/identity/naming"
)

// maxRequest bounds how long one SN works on another's request.
const maxRequest = time.Minute

// endpoint answers what other SNs ask this one.
type endpoint struct {
	replica  *replica
	ledger   *ledgerCopy
	admitter *admitter
	trans    *raftnet.Transport
	stats    func() serverStats
	log      *slog.Logger
	streams  *streams
	server   *peerconn.Server
	api      atomic.Pointer[http.Handler] // what the leader answers other SNs
}

// between returns the handler of other SNs' requests.
func (e *endpoint) between() http.Handler {
	mux := http.NewServeMux()
	answers(mux, askStats, func(context.Context, Peer, *nothing) (*serverStats, error) {
		s := e.stats()
		return &s, nil
	})
	answers(mux, askRead, func(ctx context.Context, _ Peer, _ *nothing) (*indexAnswer, error) {
		index, err := e.replica.readIndex(ctx)
		return &indexAnswer{index}, err
	})
	answers(mux, askLedger, func(_ context.Context, _ Peer, req *ledgerRequest) (*ledgerAnswer, error) {
		b, err := e.ledger.after(req.Have)
		return &ledgerAnswer{b}, err
	})
	answers(mux, askJoin, func(ctx context.Context, from Peer, req *joinPassed) (*JoinResponse, error) {
		res := e.admitter.admit(ctx, from, *req)
		return &res, nil
	})
	answers(mux, askHandOver, func(_ context.Context, from Peer, req *handOver) (*nothing, error) {
		if !e.trans.HandsOver(from, req.PeerID) {
			return nil, ErrNotLeader
		}
		return &nothing{}, nil
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		api := e.api.Load()
		if api == nil || !e.replica.leads() && !strings.HasPrefix(r.URL.Path, Beside) {
			http.Error(w, ErrNotLeader.Error(), http.StatusMisdirectedRequest)
			return
		}
		(*api).ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer := peerconn.PeerOf(r.Context())
		if !e.allow(peer) { // also on a connection that was opened before its sender was removed
			e.log.Warn("request refused: not an SN of the configuration", "peer", peer.PeerID)
			http.Error(w, "not an SN of the configuration", http.StatusForbidden)
			return
		}
		if !e.streams.begin() {
			http.Error(w, ErrShutdown.Error(), http.StatusServiceUnavailable)
			return
		}
		defer e.streams.end()
		ctx, cancel := context.WithTimeout(r.Context(), maxRequest)
		defer cancel()
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// serveLink answers another SN on a stream until that ends.
func (e *endpoint) serveLink(conn net.Conn, peer Peer) {
	defer func() { _ = conn.Close() }()
	if peer.Role != naming.RoleSN {
		e.log.Warn("stream refused", "peer", peer.PeerID, "role", peer.Role)
		return
	}
	if !e.streams.enter(conn, peer) {
		return
	}
	defer e.streams.leave(conn)
	e.server.Serve(conn, peer)
}

// serveJoin answers a join: the request for a nonce, and the one that is signed over it.
func (e *endpoint) serveJoin(conn net.Conn, peer Peer) {
	defer func() { _ = conn.Close() }()
	if !e.streams.enter(conn, peer) {
		return
	}
	defer e.streams.leave(conn)
	ctx, cancel := raftnet.DoneContext(e.replica.stopped, joinTimeout)
	defer cancel()
	_ = conn.SetDeadline(time.Now().Add(joinTimeout))
	for range 2 {
		var resp JoinResponse
		req, err := DecodeJoin(conn)
		switch {
		case errors.Is(err, io.EOF):
			return
		case peer.Role != naming.RoleSN:
			resp = refuse("ROLE_REFUSED", fmt.Sprintf("role %q may not join consensus", peer.Role), "only SNs join; check the SPIFFE ID")
		case err != nil:
			resp = refuse("BAD_REQUEST", err.Error(), "update this node to the version of the others")
		default:
			resp = e.admitter.handle(ctx, peer, req)
		}
		if resp.Refused != nil && !notAdmitted(resp.Refused) { // the leader tells of those, once
			e.log.Warn("join refused", "peer", peer.PeerID, "node", req.Name, "reason", resp.Refused.Reason, "message", resp.Refused.Message)
		}
		if err := writeJSON(conn, maxJoin, resp); err != nil {
			e.log.Debug("join not answered", "peer", peer.PeerID, "err", err)
		}
		if err != nil || resp.Nonce == nil {
			return
		}
	}
}

// allow judges who may ask this server something; the role is checked already. Servers of the configuration
// may, and the leader that this server follows, before it has its configuration. A stranger may while this server knows no
// leader: it is new, or so far behind that it has not heard of those who joined since, and only a leader does what changes
// anything.
func (e *endpoint) allow(p Peer) bool {
	if !e.replica.genuine(p) {
		return false
	}
	_, _, ok := e.replica.leader()
	return !ok || e.trans.Leads(p.PeerID) || e.trans.Known(p.PeerID)
}
