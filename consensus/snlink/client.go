// Package snlink carries HTTP/2 between SNs over the swarm's own streams: one connection to each SN that was asked something,
// opened when it is needed and kept.
package snlink

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
	// dialTime bounds the opening of a link.
	dialTime = 10 * time.Second
	// A link that has been silent for pingAfter is asked for a sign of life, and given up after pingTime without.
	pingAfter = 15 * time.Second
	pingTime  = 10 * time.Second
	// writeTime is how long the other side may leave a link unread.
	writeTime = 10 * time.Second
)

// ErrLost reports that a request's link broke: whether the request was carried out is unknown.
var ErrLost = errors.New("link to sn lost")

// ErrClosed is returned once the links are closed.
var ErrClosed = errors.New("links to sns are closed")

// Links keeps one connection to each SN that was asked something. Its methods are safe for concurrent use; whoever made it calls
// Close.
type Links struct {
	transport *http.Transport
	done      chan struct{}
	dialling  sync.WaitGroup

	mu     sync.Mutex
	open   map[string]*link // by address
	closed bool
}

// link is one connection, or the attempt to open it.
type link struct {
	ready chan struct{} // closed when what follows is set
	conn  *http.ClientConn
	err   error
}

// New returns links that are opened with dial.
func New(dial func(ctx context.Context, address string) (net.Conn, error)) *Links {
	return &Links{
		done: make(chan struct{}), open: map[string]*link{},
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

// To returns what sends requests to the SN at an address, whatever their URL names as the host. Where the link broke
// before or under an answer, the error is an ErrLost, unless the request's context has ended.
func (ls *Links) To(address string) http.RoundTripper { return way{ls, address} }

type way struct {
	links   *Links
	address string
}

// RoundTrip implements http.RoundTripper.
func (w way) RoundTrip(r *http.Request) (*http.Response, error) {
	l, err := w.links.get(r.Context(), w.address)
	if err != nil {
		return nil, err
	}
	res, err := l.conn.RoundTrip(r)
	if err != nil {
		if r.Context().Err() != nil {
			return nil, err
		}
		if l.conn.Err() == nil {
			return nil, err // of this request alone, such as headers that are too long
		}
		w.links.drop(w.address, l)
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

// get returns the open link to an address, or opens one; concurrent callers share the dial.
func (ls *Links) get(ctx context.Context, address string) (*link, error) {
	ls.mu.Lock()
	if ls.closed {
		ls.mu.Unlock()
		return nil, ErrClosed
	}
	l := ls.open[address]
	if l == nil || l.broken() {
		l = &link{ready: make(chan struct{})}
		ls.open[address] = l
		ls.dialling.Go(func() { ls.dial(l, address) })
	}
	ls.mu.Unlock()
	select {
	case <-l.ready:
		return l, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// broken reports whether a link that was open is no more.
func (l *link) broken() bool {
	select {
	case <-l.ready:
		return l.err == nil && l.conn.Err() != nil
	default:
		return false
	}
}

func (ls *Links) dial(l *link, address string) {
	ctx, cancel := raftnet.DoneContext(ls.done, dialTime)
	defer cancel()
	conn, err := ls.transport.NewClientConn(ctx, "http", hex.EncodeToString([]byte(address))+":0")
	if err == nil {
		err = greet(ctx, conn)
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.conn, l.err = conn, err; err != nil {
		l.err = fmt.Errorf("%w: %w", ErrLost, err)
		if ls.open[address] == l {
			delete(ls.open, address)
		}
	} else if ls.open[address] != l {
		_ = conn.Close() // it was dropped meanwhile
	}
	close(l.ready)
}

// greet makes a link's first request, alone. Until the server has answered, HTTP/2 lets a client send more than the server takes: more
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

// drop forgets a link and closes it.
func (ls *Links) drop(address string, l *link) {
	ls.mu.Lock()
	if ls.open[address] == l {
		delete(ls.open, address)
	}
	ls.mu.Unlock()
	l.close()
}

// close ends a link that is open; one that is being opened is closed then, as it was forgotten.
func (l *link) close() {
	select {
	case <-l.ready:
		if l.err == nil {
			_ = l.conn.Close()
		}
	default:
	}
}

// DropOf closes the links to the addresses for which out is true.
func (ls *Links) DropOf(out func(address string) bool) {
	ls.mu.Lock()
	hit := map[string]*link{}
	for address, l := range ls.open {
		if out(address) {
			hit[address] = l
		}
	}
	ls.mu.Unlock()
	for address, l := range hit {
		ls.drop(address, l)
	}
}

// Close breaks all links; requests that run fail. It waits for dials to end.
func (ls *Links) Close() {
	ls.mu.Lock()
	first := !ls.closed
	ls.closed = true
	ls.mu.Unlock()
	if first {
		close(ls.done)
	}
	ls.DropOf(func(string) bool { return true })
	ls.dialling.Wait()
}
