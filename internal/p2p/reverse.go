package p2p

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/swarmd/swarmd/internal/bucket"
	"github.com/swarmd/swarmd/internal/reach"
)

// reverseProtocol asks the side that has dialled a connection, the parent, for another one that belongs to it and carries one stream, which
// the side that asks then opens: for whoever can be dialled but can't dial.
//
//	asks                             has dialled the parent
//	token  --- over the parent ---->
//	       <----------------------- a connection for one stream, to where the parent was dialled; it names the token
//	       <--- over the parent ---- verdict
//
// Nothing is dialled but the address that the dialler had chosen itself, and what it proves and admits is what it would as acceptor: only
// the TCP connection has the other direction. A release that does not know the protocol says so, and the stream goes over the parent.
const reverseProtocol protocol.ID = "/swarm/reverse/1"

const (
	bindReverse = "swarm p2p alone 1 reverse"
	// headStart is how long a host tries to dial itself before it asks the peer too.
	headStart = 250 * time.Millisecond
	// maxReversing bounds the connections that one peer's requests have a host dial at a time.
	maxReversing = 8
	// maxReversers bounds the peers whose requests are counted, which are no more than this host has dialled lately.
	maxReversers = 4096
	// reverseBurst and reverseEach bound the connections that one peer may ask for over time. A merge needs one from each node to each, keeps it for
	// later rounds and opens it anew after a failure. Who is refused sends over the parent.
	reverseBurst = 32
	reverseEach  = time.Second
)

type reverseToken [16]byte

// reversal is one connection that this host has asked for.
type reversal struct {
	parent *conn
	made   chan *conn // of one place
}

// take gives the connection to who waits for it, or closes it if nobody does any more.
func (r *reversal) take(c *conn) {
	select {
	case r.made <- c:
	default:
		_ = c.Close()
	}
}

// reversals are the connections that this host has asked for, and how many it is asked for. Safe for concurrent use.
type reversals struct {
	host     *Host
	failures reach.Failures // of what this host has dialled

	doing bucket.Places[*conn] // by parent

	mu    sync.Mutex // guards what follows
	asked map[binding]*reversal
	now   func() time.Time
	taken bucket.Set[Peer] // by who has asked
}

func (r *reversals) ask(name binding, parent *conn) *reversal {
	x := &reversal{parent: parent, made: make(chan *conn, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = map[binding]*reversal{}
	}
	r.asked[name] = x
	return x
}

// answered returns what was asked for under a name, once; nil: nothing is.
func (r *reversals) answered(name binding) *reversal {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.asked[name]
	delete(r.asked, name)
	return x
}

// enter counts a request of the parent's peer until leave is called, unless it has too many under way, or had too many lately.
func (r *reversals) enter(parent *conn) (leave func(), err error) {
	leave, ok := r.doing.Take(parent, maxReversing)
	if !ok {
		return nil, fmt.Errorf("%d connections are being made already", maxReversing)
	}
	who := Peer{ID: parent.peer.ID, Identity: parent.peer.Identity} // however often it hangs up and is dialled again
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait, known := r.taken.Take(r.now(), maxReversers, who, bucket.Rate{Burst: reverseBurst, Each: reverseEach}, 1); wait > 0 || !known {
		leave()
		return nil, errors.New("too many connections were asked for lately")
	}
	return leave, nil
}

// dedicate has a connection made that belongs to the parent: by this host, and where the peer has made the parent by the peer too, after a
// moment, or at once where its address did not answer lately. Which one comes first is used.
func (r *reversals) dedicate(ctx context.Context, parent *conn, to Addr) (*conn, error) {
	name := parent.binding(bindName, nil)
	if parent.target != "" {
		return r.host.dialDedicated(ctx, parent, to.HostPort(), name)
	}
	if r.failures.Lately(to.HostPort()) {
		return r.reverse(ctx, parent)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		c   *conn
		err error
	}
	results := make(chan result, 2)
	try := func(how func(context.Context) (*conn, error)) {
		go func() {
			c, err := how(ctx)
			results <- result{c, err}
		}()
	}
	try(func(ctx context.Context) (*conn, error) {
		return r.host.dialDedicated(ctx, parent, to.HostPort(), name)
	})
	running, later := 1, time.NewTimer(headStart)
	defer later.Stop()
	turn := later.C
	var failed error
	for {
		select {
		case got := <-results:
			running--
			if got.err == nil {
				go closeRest(running, func() (*conn, error) { rest := <-results; return rest.c, rest.err })
				return got.c, nil
			}
			failed = errors.Join(failed, got.err)
			if running == 0 && turn == nil {
				return nil, failed
			}
			if turn == nil {
				continue
			}
		case <-turn:
		}
		turn = nil
		running++
		try(func(ctx context.Context) (*conn, error) { return r.reverse(ctx, parent) })
	}
}

// closeRest closes what comes of n tries that are not needed any more.
func closeRest(n int, next func() (*conn, error)) {
	for range n {
		if c, err := next(); err == nil {
			_ = c.Close()
		}
	}
}

// reverse asks the peer, which has dialled the parent, for a connection that belongs to it.
func (r *reversals) reverse(ctx context.Context, parent *conn) (*conn, error) {
	var token reverseToken
	_, _ = rand.Read(token[:]) // it never fails
	name := parent.binding(bindReverse, token[:])
	asked := r.ask(name, parent)
	c, err := awaitReversed(ctx, parent, token, asked)
	if err != nil {
		r.abandon(asked, name)
		return nil, fmt.Errorf("ask for a connection: %w", err)
	}
	return c, nil
}

func awaitReversed(ctx context.Context, parent *conn, token reverseToken, asked *reversal) (*conn, error) {
	s, err := open(ctx, parent, reverseProtocol)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Reset() }()
	if _, err := s.Write(token[:]); err != nil {
		return nil, err
	}
	verdict := make(chan error, 1)
	go func() { verdict <- readVerdict(s) }()
	for {
		select {
		case c := <-asked.made:
			return c, nil
		case err := <-verdict:
			if err != nil {
				return nil, err
			}
			verdict = nil // It is made, and on its way through bindIncoming.
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// abandon closes what comes, or has come, of a request that nobody waits for any more.
func (r *reversals) abandon(asked *reversal, name binding) {
	if r.answered(name) != nil {
		return // nothing has come, and nothing will be taken any more
	}
	select {
	case asked.made <- nil: // in the place of what comes, which take closes
	case c := <-asked.made:
		_ = c.Close()
	}
}

// serveReverse makes a connection that the peer of the parent asks for, and serves its stream.
func (r *reversals) serve(parent *conn, s network.MuxedStream) {
	c, err := r.make(parent, s)
	if err != nil {
		if omitted, ok := r.host.security.said.allow(r.host.ctx(), r.host.cfg.Log, slog.LevelDebug); ok {
			r.host.cfg.Log.Debug("no connection made for a peer that asks for one", "peer", parent.peer.ID.String(), "error", err, "not_logged", omitted)
		}
	}
	if writeVerdict(s, err) == nil {
		_ = s.Close()
	} else {
		_ = s.Reset()
	}
	if err == nil {
		serveOnly(r.host, c)
	}
}

func (r *reversals) make(parent *conn, s network.MuxedStream) (*conn, error) {
	if parent.target == "" || parent.parent != nil || !parent.common() {
		return nil, errors.New("this side has not dialled the connection")
	}
	if err := r.host.cfg.Refuse(parent.peer.ID); err != nil {
		return nil, err
	}
	leave, err := r.enter(parent)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := writeVerdict(s, nil); err != nil { // open's consent
		return nil, err
	}
	var token reverseToken
	if _, err := io.ReadFull(s, token[:]); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(r.host.ctx(), dedicatedTimeout, fmt.Errorf("no answer within %s: %w", dedicatedTimeout, context.DeadlineExceeded))
	defer cancel()
	return r.host.dialDedicated(ctx, parent, parent.target, parent.binding(bindReverse, token[:]))
}
