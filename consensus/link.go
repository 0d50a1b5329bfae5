package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/raftnet"
)

// writeTimeout is how long an SN may leave its side of a link unread before the link is given up.
const writeTimeout = 10 * time.Second

// errLink says that a request's link broke: whether it was done is unknown.
var errLink = errors.New("link to sn lost")

// links keeps one open stream to each SN that was asked something, so that a report costs one round trip and no
// handshake. Answers may come in any order.
type links struct {
	dial func(ctx context.Context, address string) (net.Conn, error)
	done chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	open   map[string]*link
	closed bool
}

func newLinks(dial func(context.Context, string) (net.Conn, error)) *links {
	return &links{dial: dial, done: make(chan struct{}), open: map[string]*link{}}
}

// link is one stream with the requests that await an answer on it.
type link struct {
	ready chan struct{} // closed when conn or err is set
	conn  net.Conn
	err   error
	write sync.Mutex // held for one frame

	mu      sync.Mutex
	next    uint64
	pending map[uint64]chan frame // nil once broken
}

// ask sends one request and waits for its answer, for as long as ctx allows.
func (ls *links) ask(ctx context.Context, address string, f frame) (frame, error) {
	l, err := ls.get(ctx, address)
	if err != nil {
		return frame{}, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		f.number = uint64(max(time.Until(deadline).Milliseconds(), 1))
	}
	answer, err := l.ask(ctx, f)
	if errors.Is(err, errLink) {
		ls.drop(address, l)
	}
	if err != nil {
		return frame{}, err
	}
	if answer.kind == frameOK {
		return answer, nil
	}
	var w wireError
	if err := json.Unmarshal(answer.body, &w); err != nil || answer.kind != frameError {
		return frame{}, fmt.Errorf("%w: bad answer", errFrame)
	}
	return frame{}, fromWire(w)
}

// get returns the open link to an address, or opens one; concurrent callers share the dial.
func (ls *links) get(ctx context.Context, address string) (*link, error) {
	ls.mu.Lock()
	if ls.closed {
		ls.mu.Unlock()
		return nil, ErrShutdown
	}
	l, found := ls.open[address]
	if !found {
		l = &link{ready: make(chan struct{}), pending: map[uint64]chan frame{}}
		ls.open[address] = l
		ls.wg.Add(1)
		go ls.run(l, address)
	}
	ls.mu.Unlock()
	select {
	case <-l.ready:
		return l, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run dials, then passes answers to those who wait until the stream breaks.
func (ls *links) run(l *link, address string) {
	defer ls.wg.Done()
	ctx, cancel := raftnet.DoneContext(ls.done, writeTimeout)
	conn, err := ls.dial(ctx, address)
	cancel()
	if err != nil {
		l.err = fmt.Errorf("%w: %w", errLink, err)
		ls.drop(address, l)
		close(l.ready)
		return
	}
	ls.mu.Lock()
	l.conn = conn
	stillOpen := ls.open[address] == l
	close(l.ready)
	ls.mu.Unlock()
	if !stillOpen {
		_ = conn.Close()
	}
	for {
		f, err := readFrame(conn)
		if err != nil {
			break
		}
		l.deliver(f)
	}
	ls.drop(address, l)
	l.fail()
}

// drop forgets a link and closes its stream.
func (ls *links) drop(address string, l *link) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.open[address] == l {
		delete(ls.open, address)
	}
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// dropOf drops the links to the peers for whom out is true.
func (ls *links) dropOf(out func(peerID string) bool) {
	ls.mu.Lock()
	hit := map[string]*link{}
	for address, l := range ls.open {
		if id, _, err := ParseAddress(address); err == nil && out(id) {
			hit[address] = l
		}
	}
	ls.mu.Unlock()
	for address, l := range hit {
		ls.drop(address, l)
	}
}

// close breaks all links and waits for their goroutines.
func (ls *links) close() {
	ls.mu.Lock()
	if !ls.closed {
		close(ls.done)
	}
	ls.closed = true
	for _, l := range ls.open {
		if l.conn != nil {
			_ = l.conn.Close()
		}
	}
	clear(ls.open)
	ls.mu.Unlock()
	ls.wg.Wait()
}

func (l *link) ask(ctx context.Context, f frame) (frame, error) {
	answer := make(chan frame, 1)
	l.mu.Lock()
	if l.pending == nil {
		l.mu.Unlock()
		return frame{}, errLink
	}
	l.next++
	f.id = l.next
	l.pending[f.id] = answer
	l.mu.Unlock()
	defer l.forget(f.id)
	if err := writeFrame(l.conn, &l.write, f); err != nil {
		return frame{}, err
	}
	select {
	case a, ok := <-answer:
		if !ok {
			return frame{}, errLink
		}
		return a, nil
	case <-ctx.Done():
		return frame{}, ctx.Err()
	}
}

func (l *link) forget(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, id)
}

func (l *link) deliver(f frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if answer, ok := l.pending[f.id]; ok {
		delete(l.pending, f.id)
		answer <- f
	}
}

// fail tells everyone who waits that no answer will come.
func (l *link) fail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, answer := range l.pending {
		close(answer)
	}
	l.pending = nil
}

func writeFrame(conn net.Conn, mu *sync.Mutex, f frame) error {
	b, err := f.encode()
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := conn.Write(b); err != nil {
		return fmt.Errorf("%w: %w", errLink, err)
	}
	return nil
}
