package raftnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// leastCeiling is the highest term that is believed where the clock says 1970, as without a battery it does.
	leastCeiling = 1 << 20
	// rpcTimeout bounds one message of raft and its answer.
	rpcTimeout = 10 * time.Second
	// notice is the least time between two complaints.
	notice = time.Minute
)

var (
	errTerm  = errors.New("no swarm has had so many elections by now")
	errFrame = errors.New("malformed message of raft")
)

// Config is what a Transport asks of its server. The functions must be fast and must not block.
type Config struct {
	Network  Network
	Address  string         // this server's: see FormatAddress
	Term     *atomic.Uint64 // raft's, as it was stored last
	Election time.Duration
	Log      *slog.Logger
	// Genuine reports whether a peer is who its node key says, and not banned.
	Genuine func(Peer) bool
	// Servers returns the newest configuration.
	Servers func() []raft.Server
	// Leader returns the leader's address; empty: none is known.
	Leader func() string
	// Named reports whether somebody trusted has named a peer as a server that this one's configuration lacks.
	Named func(peerID string) bool
	// Notify tells the server at an address that this leader hands over to another one. It may block until ctx ends.
	Notify func(ctx context.Context, address, successorID string)
}

// Transport lies between raft and the streams: raft believes what a message says of its sender, so what arrives is held
// here to the peer that the network has proven. Each accepted stream has a raft.NetworkTransport of its own, that decodes
// what this one peer sends; the embedded one only dials.
type Transport struct {
	*raft.NetworkTransport
	cfg    Config
	config raft.NetworkTransportConfig
	layer  *streamLayer
	next   successor

	requests   chan raft.RPC
	heartbeat  atomic.Pointer[func(raft.RPC)]
	complained atomic.Int64 // when a refused message was logged last, in Unix nanoseconds
}

var (
	_ raft.Transport   = (*Transport)(nil)
	_ raft.WithPreVote = (*Transport)(nil)
)

// New returns the transport of a server. Accepted streams are Handle's.
func New(cfg Config) *Transport {
	t := &Transport{cfg: cfg, requests: make(chan raft.RPC)}
	t.layer = newStreamLayer(cfg.Network, cfg.Address, func(p Peer) bool { return cfg.Genuine(p) && t.Known(p.PeerID) }, cfg.Log)
	t.layer.serve = t.serve
	t.config = raft.NetworkTransportConfig{Stream: t.layer, MaxPool: 3, Timeout: rpcTimeout, Logger: NewLog(cfg.Log, "raft_net")}
	t.NetworkTransport = raft.NewNetworkTransportWithConfig(&t.config)
	return t
}

// Handle passes what is permitted of an accepted stream to raft, and returns when it is closed.
func (t *Transport) Handle(conn net.Conn, peer Peer) { t.layer.handle(conn, peer) }

// CloseOf closes the open streams of the peers for whom out is true.
func (t *Transport) CloseOf(out func(peerID string) bool) { t.layer.closeOf(out) }

// fits reports whether a message's term is one to believe. What is not above the stored one changes nothing, whatever a clock
// that was set back says.
func (t *Transport) fits(term uint64) bool {
	return term <= max(Ceiling(time.Now()), t.cfg.Term.Load())
}

// Ceiling is the highest term to believe at a time: that of an election in every millisecond since 1970. From the largest
// number there would be no way on, for ever. The bound must not depend on the server's own term: a rogue could repeat what
// is permitted, and bring honest servers so far apart that they refuse each other, who can't tell whose fault that is. This
// one is everybody's, so however far one was lifted, the others may follow it; and it rises faster than elections can.
func Ceiling(now time.Time) uint64 { return max(uint64(max(now.UnixMilli(), 0)), leastCeiling) }

// Consumer returns the requests that were let through.
func (t *Transport) Consumer() <-chan raft.RPC { return t.requests }

// SetHeartbeatHandler sets what takes heartbeats past the consumer.
func (t *Transport) SetHeartbeatHandler(fn func(raft.RPC)) { t.heartbeat.Store(&fn) }

// serve passes the requests of one accepted stream on until it is closed.
func (t *Transport) serve(conn *trackedConn, peer Peer) {
	config := t.config
	config.Stream = &oneStream{conn: conn, done: make(chan struct{})}
	one := raft.NewNetworkTransportWithConfig(&config)
	defer func() { _ = one.Close() }()
	one.SetHeartbeatHandler(func(rpc raft.RPC) {
		if fn := t.heartbeat.Load(); fn != nil && t.permits(conn, peer, rpc) {
			(*fn)(rpc)
		}
	})
	for {
		select {
		case <-conn.closed:
			return
		case rpc := <-one.Consumer():
			if !t.permits(conn, peer, rpc) {
				continue
			}
			select {
			case t.requests <- rpc:
			case <-conn.closed:
				return
			}
		}
	}
}

// permits answers a request that is not for raft.
func (t *Transport) permits(conn *trackedConn, peer Peer, rpc raft.RPC) bool {
	err := t.judge(peer, rpc.Command)
	if err == nil {
		return true
	}
	rpc.Respond(nil, err)
	if rpc.Reader != nil { // what it carries is not read
		_ = conn.Close()
	}
	return false
}

// answered holds an answer's term to this server's.
func (t *Transport) answered(err error, term uint64) error {
	if err == nil && !t.fits(term) {
		return fmt.Errorf("answer of term %d: %w: check the clocks of both servers", term, errTerm)
	}
	return err
}

// AppendEntries implements raft.Transport.
func (t *Transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return t.answered(t.NetworkTransport.AppendEntries(id, to, req, resp), resp.Term)
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return t.answered(t.NetworkTransport.RequestVote(id, to, req, resp), resp.Term)
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.answered(t.NetworkTransport.RequestPreVote(id, to, req, resp), resp.Term)
}

// TimeoutNow implements raft.Transport: it makes a server the leader, which the others take from no one else.
func (t *Transport) TimeoutNow(id raft.ServerID, to raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	t.announce(string(to))
	return t.NetworkTransport.TimeoutNow(id, to, req, resp)
}

// AppendEntriesPipeline implements raft.Transport.
func (t *Transport) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	p := &pipeline{AppendPipeline: inner, answers: make(chan raft.AppendFuture), done: make(chan struct{})}
	go p.pass(t.fits)
	return p, nil
}

// pipeline is one of raft's whose answers are held to their bound.
type pipeline struct {
	raft.AppendPipeline
	answers chan raft.AppendFuture
	once    sync.Once
	done    chan struct{}
}

func (p *pipeline) pass(fits func(uint64) bool) {
	for {
		select {
		case <-p.done:
			return
		case f := <-p.AppendPipeline.Consumer():
			if f.Error() == nil && !fits(f.Response().Term) {
				_ = p.Close() // raft goes back to single messages, each of which fails
				return
			}
			select {
			case p.answers <- f:
			case <-p.done:
				return
			}
		}
	}
}

// Consumer returns the answers.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close ends the pipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.done) })
	return p.AppendPipeline.Close()
}

// oneStream is a layer of one accepted stream.
type oneStream struct {
	conn  *trackedConn
	taken atomic.Bool
	once  sync.Once
	done  chan struct{}
}

// Accept returns the stream, then nothing.
func (o *oneStream) Accept() (net.Conn, error) {
	if o.taken.CompareAndSwap(false, true) {
		return o.conn, nil
	}
	<-o.done
	return nil, net.ErrClosed
}

// Dial dials nobody.
func (*oneStream) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return nil, net.ErrClosed
}

// Addr names this side.
func (o *oneStream) Addr() net.Addr { return addr(o.conn.layer.address) }

// Close closes the stream.
func (o *oneStream) Close() error {
	o.once.Do(func() { close(o.done) })
	return o.conn.Close()
}

// judge returns why a request is not for raft: it speaks for another server than the one that sent it, or of a term that
// no election leads to, or a server that has a configuration is to follow one outside of it. Claims that only a leader's
// hand-over bears out are taken out of it.
func (t *Transport) judge(peer Peer, request any) error {
	err := t.judgeSender(peer, request)
	if err == nil {
		err = t.judgeRequest(peer, request)
	}
	if err != nil {
		said := t.cfg.Log.Debug
		if now, last := time.Now().UnixNano(), t.complained.Load(); now-last > int64(notice) && t.complained.CompareAndSwap(last, now) {
			said = t.cfg.Log.Warn
		}
		said("message of raft refused", "peer", peer.PeerID, "message", strings.TrimPrefix(fmt.Sprintf("%T", request), "*raft."), "err", err)
	}
	return err
}

// judgeSender returns why a request is not from who it says. A key and a name of the configuration belong together. Only who is so far
// behind that it follows nobody of its configuration takes a leader whose name has another key there, as a replaced server's has, if
// an answer to its join named that key. It could be led by that key under any other name, and its vote still needs both.
func (t *Transport) judgeSender(peer Peer, request any) error {
	h, ok := request.(raft.WithRPCHeader)
	if !ok {
		return errFrame
	}
	header := h.GetRPCHeader()
	if id, _, err := ParseAddress(string(header.Addr)); err != nil || id != peer.PeerID {
		return fmt.Errorf("it speaks for %.128q", header.Addr)
	}
	leader, _, _ := ParseAddress(t.cfg.Leader())
	member, follows, taken := false, false, false
	for _, s := range t.cfg.Servers() {
		id, _, _ := ParseAddress(string(s.Address))
		sameKey, sameName := id == peer.PeerID, string(s.ID) == string(header.ID)
		if sameKey && !sameName {
			return fmt.Errorf("it speaks for %.64q", header.ID)
		}
		member = member || sameKey
		taken = taken || sameName && !sameKey
		follows = follows || id == leader
	}
	switch {
	case member && !taken:
		return nil
	case member || taken && (follows || !leads(request)):
		return fmt.Errorf("it speaks for %.64q", header.ID)
	case !t.cfg.Named(peer.PeerID):
		return errors.New("its sender is no SN of the configuration")
	}
	return nil
}

// leads reports whether only a leader sends such a request, as to those that it has follow it.
func leads(request any) bool {
	switch request.(type) {
	case *raft.AppendEntriesRequest, *raft.InstallSnapshotRequest:
		return true
	}
	return false
}

func (t *Transport) judgeRequest(peer Peer, request any) error {
	var term uint64
	switch r := request.(type) {
	case *raft.AppendEntriesRequest:
		term = r.Term
		for i, entry := range r.Entries {
			if !readable(entry) {
				return fmt.Errorf("entry %d of type %s: %w", entry.Index, entry.Type, errFrame)
			}
			if entry.Term > term || entry.Index != r.PrevLogEntry+uint64(i)+1 {
				return fmt.Errorf("entry %d of term %d: %w", entry.Index, entry.Term, errFrame)
			}
		}
	case *raft.InstallSnapshotRequest:
		term = r.Term
		if r.SnapshotVersion != raft.SnapshotVersionMax || r.LastLogTerm > term || !isConfiguration(r.Configuration) {
			return fmt.Errorf("snapshot of version %d: %w", r.SnapshotVersion, errFrame)
		}
	case *raft.RequestPreVoteRequest:
		term = r.Term
	case *raft.RequestVoteRequest:
		term = r.Term
		// With this raft gives its vote although it has a leader. Without it the vote is one like any other.
		r.LeadershipTransfer = r.LeadershipTransfer && t.next.is(peer.PeerID)
	case *raft.TimeoutNowRequest:
		if !t.Leads(peer.PeerID) {
			return errors.New("only the leader hands leadership over")
		}
	default:
		return errFrame
	}
	if !t.fits(term) {
		return fmt.Errorf("term %d: %w: check the clocks of both servers", term, errTerm)
	}
	return nil
}

// readable reports whether raft can take an entry: one whose configuration does not decode makes it panic, again at each start.
func readable(entry *raft.Log) bool {
	switch entry.Type {
	case raft.LogCommand, raft.LogNoop, raft.LogBarrier:
		return true
	case raft.LogConfiguration:
		return isConfiguration(entry.Data)
	}
	return false // of versions before the first one of this program
}

func isConfiguration(b []byte) (ok bool) {
	defer func() { ok = recover() == nil }() // what raft does about one that does not decode
	raft.DecodeConfiguration(b)
	return true
}

// Known reports whether raft's messages are taken from a peer: it is of the configuration, or was named as a server, as
// to one that joins and has no configuration yet.
func (t *Transport) Known(peerID string) bool {
	for _, s := range t.cfg.Servers() {
		if id, _, err := ParseAddress(string(s.Address)); err == nil && id == peerID {
			return true
		}
	}
	return t.cfg.Named(peerID)
}

// Leads reports whether this server knows the peer as its leader.
func (t *Transport) Leads(peerID string) bool {
	id, _, err := ParseAddress(t.cfg.Leader())
	return err == nil && id == peerID
}

// successor is the server to which a leader hands over.
type successor struct {
	mu    sync.Mutex
	id    string // peer ID
	until time.Time
}

func (s *successor) set(peerID string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.until = peerID, time.Now().Add(d)
}

func (s *successor) is(peerID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id == peerID && time.Now().Before(s.until)
}

// announce tells the other voters that this leader hands over to a server: they give it their votes although they have a
// leader. Who can't be told in time gives it when it finds that the leader is gone.
func (t *Transport) announce(address string) {
	id, _, err := ParseAddress(address)
	if err != nil {
		return
	}
	t.next.set(id, 2*t.cfg.Election)
	ctx, cancel := DoneContext(t.layer.done, t.cfg.Election/4)
	defer cancel()
	var told sync.WaitGroup
	for _, s := range t.cfg.Servers() {
		if to := string(s.Address); s.Suffrage == raft.Voter && to != address && to != t.cfg.Address {
			told.Go(func() { t.cfg.Notify(ctx, to, id) })
		}
	}
	told.Wait()
}

// HandsOver notes to whom the leader hands over; false: the one who says so does not lead.
func (t *Transport) HandsOver(from Peer, successorID string) bool {
	if !t.Leads(from.PeerID) {
		return false
	}
	t.next.set(successorID[:min(len(successorID), MaxAddress)], 2*t.cfg.Election)
	return true
}
