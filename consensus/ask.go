package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/consensus/peerconn"
)

// Procedures that SNs call on each other for consensus itself: Connect calls with JSON bodies.
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

// jsonCodec encodes these messages. It refuses unknown fields.
type jsonCodec struct{}

// Name implements connect.Codec.
func (jsonCodec) Name() string { return "json" }

// Marshal implements connect.Codec.
func (jsonCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal implements connect.Codec.
func (jsonCodec) Unmarshal(b []byte, v any) error { return exactly(b, v) }

// ask makes one call on the SN at an address, for as long as ctx allows. ErrNotLeader keeps its identity.
func ask[Req, Res any](ctx context.Context, conns *peerconn.Pool, address, procedure string, req *Req) (*Res, error) {
	client := connect.NewClient[Req, Res](&http.Client{Transport: conns.To(address)}, "http://sn"+procedure,
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

// answers returns a handler that answers calls by fn.
func answers[Req, Res any](mux *http.ServeMux, procedure string, fn func(ctx context.Context, from Peer, req *Req) (*Res, error)) {
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, req *connect.Request[Req]) (*connect.Response[Res], error) {
		res, err := fn(ctx, peerconn.PeerOf(ctx), req.Msg)
		if errors.Is(err, ErrNotLeader) || errors.Is(err, ErrShutdown) {
			return nil, connect.NewError(connect.CodeFailedPrecondition, err)
		}
		if err != nil {
			return nil, connect.NewError(connect.CodeUnknown, err)
		}
		return connect.NewResponse(res), nil
	}, connect.WithCodec(jsonCodec{}), connect.WithReadMaxBytes(maxJoin)))
}

// ServeAPI makes h answer the requests of other SNs while this server leads. In h, [PeerOf] returns the SN that asks. A response
// with status 421 makes that SN look for the leader again. Requests below [Beside] are answered whether it leads or not.
func (g *Group) ServeAPI(h http.Handler) { g.endpoint.api.Store(&h) }

// Beside begins the paths of what any SN answers another, as what it keeps beside the state.
const Beside = "/swarm.beside/"

// Others returns ways to what the other servers of the configuration answer below [Beside], by name.
func (g *Group) Others() map[string]http.RoundTripper {
	ways := map[string]http.RoundTripper{}
	for _, s := range g.replica.servers() {
		if address := string(s.Address); address != g.replica.address {
			ways[string(s.ID)] = g.peers.conns.To(address)
		}
	}
	return ways
}

// PeerOf returns the SN that sent a request, as the network has proven it; nobody for the context of another request.
func PeerOf(ctx context.Context) Peer { return peerconn.PeerOf(ctx) }

// WithLeader calls try until it succeeds or fails for a reason that another try can't mend: with nil while this server leads, else
// with a way to the leader's API. It tries again while there is no leader, the connection to it breaks, or try returns ErrNotLeader, until ctx
// ends, and then returns ErrNoLeader. Where there has been no leader for five election timeouts and fewer voters than a majority
// answer, it returns at once; see Quorum. So try must be idempotent.
func (g *Group) WithLeader(ctx context.Context, try func(ctx context.Context, way http.RoundTripper) error) error {
	return g.contact.retry(ctx, func(ctx context.Context, leader string) error {
		if leader != g.replica.address {
			return try(ctx, toLeader{g.peers.conns.To(leader)})
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
