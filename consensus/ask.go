package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"

	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/consensus/snlink"
	"github.com/swarmd/swarmd/identity/naming"
)

// What SNs ask each other for consensus itself, as Connect calls with JSON bodies on their links.
const (
	askStats    = "/swarm.consensus/Stats"     // how far is your log?
	askRead     = "/swarm.consensus/ReadIndex" // of the leader: which index must I have applied?
	askLedger   = "/swarm.consensus/ReadLedger"
	askJoin     = "/swarm.consensus/Join"     // of the leader: a join passed on
	askHandOver = "/swarm.consensus/HandOver" // the leader says who is to lead next
)

// maxAsk bounds the messages of these calls: a ledger's chunk, of which one record may be longer than its bound, as JSON.
const maxAsk = 4 << 20

type nothing struct{}

type indexAnswer struct {
	Index uint64 `json:"index"`
}

type ledgerRequest struct {
	Have uint64 `json:"have"` // records that the asking side has
}

type ledgerAnswer struct {
	Records []byte `json:"records"` // the next ones, whole
}

type handOver struct {
	PeerID string `json:"peer_id"`
}

// jsonCodec is the one form of these messages. What has an unknown field is refused.
type jsonCodec struct{}

// Name implements connect.Codec.
func (jsonCodec) Name() string { return "json" }

// Marshal implements connect.Codec.
func (jsonCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal implements connect.Codec.
func (jsonCodec) Unmarshal(b []byte, v any) error { return exactly(b, v) }

// ask makes one call on the SN at an address, for as long as ctx allows. ErrNotLeader keeps its identity.
func ask[Req, Res any](ctx context.Context, links *snlink.Links, address, procedure string, req *Req) (*Res, error) {
	client := connect.NewClient[Req, Res](&http.Client{Transport: links.To(address)}, "http://sn"+procedure,
		connect.WithCodec(jsonCodec{}), connect.WithReadMaxBytes(maxAsk))
	res, err := client.CallUnary(ctx, connect.NewRequest(req))
	switch {
	case err == nil:
		return res.Msg, nil
	case connect.CodeOf(err) == connect.CodeFailedPrecondition:
		return nil, ErrNotLeader
	case ctx.Err() != nil:
		return nil, fmt.Errorf("ask %s: %w", address, ctx.Err())
	}
	return nil, fmt.Errorf("ask %s: %w", address, err)
}

// answers has fn answer a call.
func answers[Req, Res any](mux *http.ServeMux, procedure string, fn func(ctx context.Context, from Peer, req *Req) (*Res, error)) {
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, req *connect.Request[Req]) (*connect.Response[Res], error) {
		res, err := fn(ctx, snlink.PeerOf(ctx), req.Msg)
		if errors.Is(err, ErrNotLeader) || errors.Is(err, ErrShutdown) {
			return nil, connect.NewError(connect.CodeFailedPrecondition, err)
		}
		if err != nil {
			return nil, connect.NewError(connect.CodeUnknown, err)
		}
		return connect.NewResponse(res), nil
	}, connect.WithCodec(jsonCodec{}), connect.WithReadMaxBytes(maxJoin)))
}

// between is what this server answers to other SNs.
func (g *Group) between() http.Handler {
	mux := http.NewServeMux()
	answers(mux, askStats, func(context.Context, Peer, *nothing) (*serverStats, error) {
		s := g.ownStats()
		return &s, nil
	})
	answers(mux, askRead, func(ctx context.Context, _ Peer, _ *nothing) (*indexAnswer, error) {
		index, err := g.readIndex(ctx)
		return &indexAnswer{index}, err
	})
	answers(mux, askLedger, func(_ context.Context, _ Peer, req *ledgerRequest) (*ledgerAnswer, error) {
		b, err := g.book.Read(req.Have, maxLedgerChunk)
		return &ledgerAnswer{b}, err
	})
	answers(mux, askJoin, func(ctx context.Context, from Peer, req *joinPassed) (*JoinResponse, error) {
		res := g.joinLocal(ctx, from, *req)
		return &res, nil
	})
	answers(mux, askHandOver, func(_ context.Context, from Peer, req *handOver) (*nothing, error) {
		if !g.trans.HandsOver(from, req.PeerID) {
			return nil, ErrNotLeader
		}
		return &nothing{}, nil
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		api := g.api.Load()
		if api == nil || !g.IsLeader() {
			http.Error(w, ErrNotLeader.Error(), http.StatusMisdirectedRequest)
			return
		}
		(*api).ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer := snlink.PeerOf(r.Context())
		if !g.allow(peer) { // also on a link that was opened before its sender was removed
			g.log.Warn("request refused: not an SN of the configuration", "peer", peer.PeerID)
			http.Error(w, "not an SN of the configuration", http.StatusForbidden)
			return
		}
		if !g.begin() {
			http.Error(w, ErrShutdown.Error(), http.StatusServiceUnavailable)
			return
		}
		defer g.serving.Done()
		ctx, cancel := context.WithTimeout(r.Context(), maxRequest)
		defer cancel()
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// serveLink answers another SN on a stream until that ends.
func (g *Group) serveLink(conn net.Conn, peer Peer) {
	defer func() { _ = conn.Close() }()
	if peer.Role != naming.RoleSN {
		g.log.Warn("stream refused", "peer", peer.PeerID, "role", peer.Role)
		return
	}
	if !g.enter(conn, peer) {
		return
	}
	defer g.leave(conn)
	g.server.Serve(conn, peer)
}

// ServeAPI has h answer the requests of other SNs while this server leads. [PeerOf] tells h who asks. With the status 421 it sends who
// asks back to look for the leader.
func (g *Group) ServeAPI(h http.Handler) { g.api.Store(&h) }

// PeerOf returns the SN that sent a request, as the network has proven it; nobody for the context of another request.
func PeerOf(ctx context.Context) Peer { return snlink.PeerOf(ctx) }

// WithLeader calls try until it succeeds or fails for a reason that another try can't mend: with nil while this server leads, else
// with a way to the leader's API. It tries again while there is no leader, the link to it breaks, or try returns ErrNotLeader, until ctx
// ends, and then returns ErrNoLeader. Where there has been no leader for five election timeouts and fewer voters than a majority
// answer, it returns at once; see Quorum. So what try does must bear being done twice.
func (g *Group) WithLeader(ctx context.Context, try func(ctx context.Context, way http.RoundTripper) error) error {
	return g.retry(ctx, func(ctx context.Context, leader string) error {
		if leader != g.cfg.Address {
			return try(ctx, toLeader{g.links.To(leader)})
		}
		if !g.IsLeader() { // it must know all that was committed before
			return ErrNotLeader
		}
		return try(ctx, nil)
	})
}

// toLeader is the way to an SN that may not lead any more.
type toLeader struct{ way http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l toLeader) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.way.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusMisdirectedRequest {
		_ = res.Body.Close()
		return nil, ErrNotLeader
	}
	return res, err
}

// dial opens a link to another SN.
func (g *Group) dial(ctx context.Context, address string) (net.Conn, error) {
	if id, _, err := ParseAddress(address); err == nil {
		if err := g.View().CheckBan(id); err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
	}
	return raftnet.DialSN(ctx, g.cfg.Network, address, ProtocolRPC)
}
