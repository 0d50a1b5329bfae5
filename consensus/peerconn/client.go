// Package peerconn carries HTTP/2 between SNs over the swarm's own streams: one connection to each SN that was asked something,
// opened when it is needed and kept.
package peerconn

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/raftnet"
)

const (
	// dialTime bounds the opening of a connection.
	dialTime = 10 * time.Second
	// A connection that has been silent for pingAfter is asked for a sign of life, and given up after pingTime without.
	pingAfter = 15 * time.Second
	pingTime  = 10 * time.Second
	// writeTime is how long the other side may leave a connection unread.
	writeTime = 10 * time.Second
)

// ErrLost reports that a request's connection broke: whether the request was carried out is unknown.
var ErrLost = errors.New("connection to SN lost")

// ErrClosed is returned once the connections are closed.
var ErrClosed = errors.New("connections to SNs are closed")

// Pool keeps one connection to each SN that was asked something. Its methods are safe for concurrent use; whoever made it calls
// Close.
type Pool struct {
	transport *http.Transport
	done      chan struct{}
	dialling  sync.WaitGroup

	mu     sync.Mutex
	open   map[string]*entry // by address
	closed bool
}

// entry is one connection, or the attempt to open it.
type entry struct {
	ready chan struct{} // closed when what follows is set
	conn  *http.ClientConn
	err   error
}

// New returns a pool that opens its connections with dial.
func New(dial func(ctx context.Context, address string) (net.Conn, error)) *Pool {
	return &Pool{
		done: make(chan struct{}), open: map[string]*entry{},
		transport: &http.Transport{
			DialContext: func(ctx context.Context, _, host string) (net.Conn, error) {
				address, err := hex.DecodeString(strings.TrimSuffix(host, ":0"))
				if err != nil {
					return nil, err
				}
				return dial(ctx, string(address))
			},
			Protocols: onlyHTTP2(), DisableCompression: true, MaxResponseHeaderBytes: maxHeaders,
			HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTime, WriteByteTimeout: writeTime},
		},
	}
}

func onlyHTTP2() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true) // the streams are encrypted
	return p
}

// To returns what sends requests to the SN at an address, whatever their URL names as the host. Where the connection broke
// before or under an answer, the error is an ErrLost, unless the request's context has ended.
func (p *Pool) To(address string) http.RoundTripper { return route{p, address} }

type route struct {
	pool    *Pool
	address string
}

// RoundTrip implements http.RoundTripper.
func (rt route) RoundTrip(r *http.Request) (*http.Response, error) {
	e, err := rt.pool.get(r.Context(), rt.address)
	if err != nil {
		return nil, err
	}
	res, err := e.conn.RoundTrip(r)
	if err != nil {
		if r.Context().Err() != nil {
			return nil, err
		}
		if e.conn.Err() == nil {
			return nil, err // of this request alone, such as headers that are too long
		}
		rt.pool.drop(rt.address, e)
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	res.Body = answer{res.Body, r.Context()}
	return res, nil
}

// answer is the body of one.
type answer struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // of the request, which its body belongs to
}

// Read implements io.Reader.
func (a answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && a.ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return n, err
}

// get returns the open connection to an address, or opens one; concurrent callers share the dial.
func (p *Pool) get(ctx context.Context, address string) (*entry, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	e := p.open[address]
	if e == nil || e.broken() {
		e = &entry{ready: make(chan struct{})}
		p.open[address] = e
		p.dialling.Go(func() { p.dial(e, address) })
	}
	p.mu.Unlock()
	select {
	case <-e.ready:
		return e, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// broken reports whether a connection that was open is no more.
func (e *entry) broken() bool {
	select {
	case <-e.ready:
		return e.err == nil && e.conn.Err() != nil
	default:
		return false
	}
}

func (p *Pool) dial(e *entry, address string) {
	ctx, cancel := raftnet.DoneContext(p.done, dialTime)
	defer cancel()
	conn, err := p.transport.NewClientConn(ctx, "http", hex.EncodeToString([]byte(address))+":0")
	if err == nil {
		err = greet(ctx, conn)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.conn, e.err = conn, err; err != nil {
		e.err = fmt.Errorf("%w: %w", ErrLost, err)
		if p.open[address] == e {
			delete(p.open, address)
		}
	} else if p.open[address] != e {
		_ = conn.Close() // it was dropped meanwhile
	}
	close(e.ready)
}

// greet makes a connection's first request, alone. Until the server has answered, HTTP/2 lets a client send more than the server takes: more
// requests at a time, of more bytes each.
func greet(ctx context.Context, conn *http.ClientConn) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodOptions, "http://sn/", http.NoBody)
	if err != nil {
		return err
	}
	res, err := conn.RoundTrip(r)
	if err != nil {
		_ = conn.Close()
		return err
	}
	return res.Body.Close()
}

// drop forgets a connection and closes it.
func (p *Pool) drop(address string, e *entry) {
	p.mu.Lock()
	if p.open[address] == e {
		delete(p.open, address)
	}
	p.mu.Unlock()
	e.close()
}

// close ends a connection that is open; one that is being opened is closed then, as it was forgotten.
func (e *entry) close() {
	select {
	case <-e.ready:
		if e.err == nil {
			_ = e.conn.Close()
		}
	default:
	}
}

// DropOf closes the connections to the addresses for which out is true.
func (p *Pool) DropOf(out func(address string) bool) {
	p.mu.Lock()
	hit := map[string]*entry{}
	for address, e := range p.open {
		if out(address) {
			hit[address] = e
		}
	}
	p.mu.Unlock()
	for address, e := range hit {
		p.drop(address, e)
	}
}

// Close breaks all connections; requests that run fail. It waits for dials to end.
func (p *Pool) Close() {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	if first {
		close(p.done)
	}
	p.DropOf(func(string) bool { return true })
	p.dialling.Wait()
}
