package p2p

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/bucket"
)

var errClosed = fmt.Errorf("p2p host: %w", net.ErrClosed)

// table holds a host's connections, and the goroutines that serve them. All methods are safe for concurrent use.
type table struct {
	refuse func(peer.ID) error
	crowd  *identity.Crowd // incoming connections but dedicated ones, which their parents bound
	wg     sync.WaitGroup
	// Incoming dedicated connections that have not shown their parent yet.
	unbound bucket.Places[Peer]

	// mu guards what follows, and each connection's dedicated ones.
	mu      sync.Mutex
	conns   map[peer.ID][]*conn // newest last; without dedicated ones
	taken   uint64              // how many were taken in
	adopted chan struct{}       // closed and replaced when conns has another one
	closed  bool
}

func newTable(refuse func(peer.ID) error, crowd *identity.Crowd) *table {
	return &table{refuse: refuse, crowd: crowd, conns: map[peer.ID][]*conn{}, adopted: make(chan struct{})}
}

// add takes a connection in and serves it in a goroutine of its own. It closes the oldest one of a peer that has too many.
func (t *table) add(c *conn, serve func()) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed
	}
	// Asked again under mu: who was banned since the handshake is refused here or found by of.
	if err := t.refuse(c.peer.ID); err != nil {
		return err
	}
	if oldest := t.surplus(c.peer); oldest != nil {
		t.drop(oldest)
		t.wg.Go(func() { _ = oldest.Close() })
	}
	c.leave = func() {}
	if c.target == "" { // What we dial is ours to bound.
		c.leave = t.crowd.Enter(c.peer.Identity, c.remoteAddr(), func() { _ = c.Close() })
	}
	t.taken++
	c.order = t.taken
	t.conns[c.peer.ID] = append(t.conns[c.peer.ID], c)
	close(t.adopted)
	t.adopted = make(chan struct{})
	t.wg.Go(serve)
	return nil
}

// surplus returns the connection that makes place for another of the peer, most likely dead, nil if none must. Only one of
// the same SPIFFE ID does: who has a stolen node key and an SVID of his own must not push the node out. The caller holds mu.
func (t *table) surplus(p Peer) *conn {
	var same []*conn
	for _, c := range t.conns[p.ID] {
		if c.peer.Identity == p.Identity {
			same = append(same, c)
		}
	}
	if len(same) < maxPerPeer {
		return nil
	}
	return same[0]
}

// drop takes a connection out. The caller holds mu.
func (t *table) drop(c *conn) {
	list := slices.DeleteFunc(slices.Clone(t.conns[c.peer.ID]), func(x *conn) bool { return x == c })
	if len(list) == 0 {
		delete(t.conns, c.peer.ID)
		return
	}
	t.conns[c.peer.ID] = list
}

// remove takes a connection that has ended out, and ends its dedicated ones.
func (t *table) remove(c *conn) {
	c.leave()
	t.closeDedicated(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(c)
}

// newest returns the newest connection with the peer that is as wanted, nil if none is. wanted must not block.
func (t *table) newest(id peer.ID, wanted func(*conn) bool) *conn {
	c, _ := t.newestOr(id, wanted)
	return c
}

// newestOr is newest with, if there is none, what is closed when there is another connection.
func (t *table) newestOr(id peer.ID, wanted func(*conn) bool) (*conn, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range slices.Backward(t.conns[id]) {
		if wanted(c) {
			return c, nil
		}
	}
	return nil, t.adopted
}

// peers lists whom there is a connection with.
func (t *table) peers() []Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	peers := make([]Peer, 0, len(t.conns))
	for _, list := range t.conns {
		peers = append(peers, list[len(list)-1].peer)
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return peers
}

// disconnect ends all connections with the peer.
func (t *table) disconnect(id peer.ID) {
	t.mu.Lock()
	list := slices.Clone(t.conns[id])
	t.mu.Unlock()
	t.end(list)
}

// shut takes no more connections and goroutines, and returns what end has to end.
func (t *table) shut() []*conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	var all []*conn
	for _, list := range t.conns {
		all = append(all, list...)
	}
	return all
}

func (t *table) end(list []*conn) {
	for _, c := range list {
		_ = c.Close()
		t.closeDedicated(c)
	}
}

// goTracked runs fn in a goroutine that the host's end waits for; it reports false if the host is closed.
func (t *table) goTracked(fn func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Go(fn)
	return true
}

// bind makes a dedicated connection a part of its parent, until unbind.
func (t *table) bind(c *conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Asked again under mu, as add does; a parent that was closed since takes none, for its end would not reach it.
	if t.closed {
		return errClosed
	}
	if err := t.refuse(c.parent.peer.ID); err != nil {
		return err
	}
	if c.parent.IsClosed() {
		return errors.New("the connection that it belongs to is closed")
	}
	if len(c.parent.dedicated) >= maxDedicated {
		return fmt.Errorf("%d connections belong to one already", maxDedicated)
	}
	if c.parent.dedicated == nil {
		c.parent.dedicated = map[*conn]struct{}{}
	}
	c.parent.dedicated[c] = struct{}{}
	return nil
}

func (t *table) unbind(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(c.parent.dedicated, c)
}

// closeDedicated ends what belongs to a connection that has ended.
func (t *table) closeDedicated(parent *conn) {
	t.mu.Lock()
	list := make([]*conn, 0, len(parent.dedicated))
	for c := range parent.dedicated {
		list = append(list, c)
	}
	t.mu.Unlock()
	for _, c := range list {
		_ = c.Close()
	}
}

// expect counts one more dedicated connection of the peer that has yet to show its parent, as long as there are not too many; done
// uncounts it. Who has stolen a node key, with an SVID of his own, takes no place of the node's.
func (t *table) expect(p Peer) (done func(), ok bool) {
	return t.unbound.Take(Peer{ID: p.ID, Identity: p.Identity}, maxPerPeer) // without the swarm, which is its own word
}
