package identity

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// MaxUnproven is how many connections of one listener may be in their handshake at the same time. As many more may be
	// open that have said nothing yet.
	MaxUnproven = 128
	// MaxSilent is how many connections of one address may say nothing for longer than a moment.
	MaxSilent = 8
	// maxWaiting bounds the connections that have spoken and wait for a place to be judged, in places.
	maxWaiting = 4
	// silentAge is the moment: the first bytes of an honest peer come with the packet that opens its connection, but its
	// host may be busy.
	silentAge = 250 * time.Millisecond
	// silentTime is how long a connection that is in nobody's way may say nothing.
	silentTime = 5 * time.Second
	// unprovenAge is how long a handshake is left alone when others of addresses that have as many wait for its place.
	unprovenAge = time.Second
	// siteShare is how many connections of one site, a /48, weigh as much as one of a source: that is, how many networks in it may
	// have as many connections as another source before they give way to that.
	siteShare = 8
	// gateNotice is how often a crowded gate says so.
	gateNotice = time.Minute
)

// GateConfig bounds the connections of a gate.
type GateConfig struct {
	// Handshakes bounds the handshakes at the same time, and also the connections that have said nothing; 0: MaxUnproven.
	Handshakes int
	// Silent bounds the connections of one address that say nothing; 0: MaxSilent.
	Silent int
	Log    *slog.Logger
}

// Gate is a listener that bounds the connections whose peers are not proven yet: anybody can open those. It accepts all at
// once, so that nobody fills the kernel's queue, and shares its places fairly among source addresses (IPv4 addresses, and
// IPv6 networks of 64 bits). Such a network has as many connections as are its own, but at least an eighth of those of the 48
// bits it lies in: a site has 65,536 of them to itself.
//
//   - A connection is handed on when its peer has spoken: both our protocols begin with the dialler. While it is silent it
//     gives way at once when there are too many in all, first the oldest one of the address that has most.
//   - Of those that have spoken some are in their handshake at the same time. A newcomer gets the place of the address that
//     has most, at once if its own has fewer; else it waits, and the handshake is pushed out when it has had its second.
//
// So peers that all come at once are served in turn, and whoever floods from some addresses is in the way of these alone.
type Gate struct {
	net.Listener
	cfg GateConfig

	begin   sync.Once
	came    chan struct{} // holds one token when ready may not be empty
	trouble chan error    // of accepting, which goes on
	closed  chan struct{}

	// mu guards what follows.
	mu      sync.Mutex
	queues  *gateQueues
	ready   []*GatedConn // have a place and wait for Accept
	timer   *time.Timer  // runs while a handshake is waited for
	dropped int          // since the last notice
	noticed time.Time
	ended   error
}

// gatePhase is how far a connection has come. Each has its own bound.
type gatePhase int

const (
	gateSilent gatePhase = iota
	gateWaiting
	gateHandshake
	gatePhases
	gateDone // proven, closed or dropped
)

// gateSource is what there is of one source address, by phase, oldest first.
type gateSource struct {
	open [gatePhases][]*GatedConn
	site *gateSite
}

// gateSite counts what there is of the sources of one site, by phase.
type gateSite struct {
	prefix  netip.Prefix
	count   [gatePhases]int
	sources int
}

// load is how many connections in a phase a source counts for, if it had that many more.
func (s *gateSource) load(p gatePhase, more int) int {
	return max(len(s.open[p])+more, (s.site.count[p]+more+siteShare-1)/siteShare)
}

// NewGate bounds l, which it owns. Whoever proves a peer calls Proven of its connection.
func NewGate(l net.Listener, cfg GateConfig) *Gate {
	if cfg.Handshakes == 0 {
		cfg.Handshakes = MaxUnproven
	}
	if cfg.Silent == 0 {
		cfg.Silent = MaxSilent
	}
	return &Gate{
		Listener: l, cfg: cfg, came: make(chan struct{}, 1), trouble: make(chan error), closed: make(chan struct{}),
		queues: &gateQueues{sources: map[netip.Prefix]*gateSource{}, sites: map[netip.Prefix]*gateSite{}},
	}
}

// Accept returns the next connection, a *GatedConn, that has spoken and has a place.
func (g *Gate) Accept() (net.Conn, error) {
	g.begin.Do(func() { go g.acceptAll() })
	for {
		if c, err := g.next(); c != nil || err != nil {
			return c, err
		}
		select {
		case <-g.came:
		case err := <-g.trouble:
			return nil, err
		case <-g.closed:
		}
	}
}

// next returns a connection that is ready; no error and no connection if there is none.
func (g *Gate) next() (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended != nil {
		return nil, g.ended
	}
	for len(g.ready) > 0 {
		c := g.ready[0]
		g.ready = g.ready[1:]
		if c.phase == gateHandshake {
			g.tell()
			return c, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none yet
}

// tell wakes Accept if something is ready. The caller holds mu.
func (g *Gate) tell() {
	if len(g.ready) == 0 {
		return
	}
	select {
	case g.came <- struct{}{}:
	default:
	}
}

// acceptAll takes connections out of the kernel's queue as they come until the listener is closed.
func (g *Gate) acceptAll() {
	for {
		raw, err := g.Listener.Accept()
		if err == nil {
			g.enter(raw)
			continue
		}
		var t interface{ Temporary() bool }
		if !errors.As(err, &t) || !t.Temporary() {
			g.end(err)
			return
		}
		select {
		case g.trouble <- err: // who accepts knows how long to wait
		case <-g.closed:
		}
	}
}

// enter takes a new connection in.
func (g *Gate) enter(raw net.Conn) {
	c := &GatedConn{Conn: raw, gate: g, source: SourceOf(raw.RemoteAddr()), phase: gateDone}
	first := c.peek()
	if first == peekedNothing {
		_ = raw.SetReadDeadline(time.Now().Add(silentTime))
	}
	g.mu.Lock()
	var out []*GatedConn
	switch {
	case g.ended != nil || first == peekedEnd:
		out = append(out, c)
	case first == peekedByte:
		out = g.speak(c)
	default:
		out = g.makeRoom(c)
		g.queues.put(c, gateSilent)
		go c.awaitFirst()
	}
	g.mu.Unlock()
	drop(out)
}

// makeRoom returns the silent connections that give way to a new one. The caller holds mu.
func (g *Gate) makeRoom(c *GatedConn) (out []*GatedConn) {
	own := g.queues.sources[c.source]
	for own != nil && len(own.open[gateSilent]) >= g.cfg.Silent && time.Since(own.open[gateSilent][0].since) >= silentAge {
		out = append(out, g.giveWay(own.open[gateSilent][0])...)
	}
	for g.queues.count[gateSilent] >= g.cfg.Handshakes {
		out = append(out, g.giveWay(g.queues.largest(gateSilent).open[gateSilent][0])...)
	}
	return out
}

// giveWay drops a silent connection, unless it has just spoken and nobody had the time to notice. The caller holds mu.
func (g *Gate) giveWay(c *GatedConn) []*GatedConn {
	if c.peek() == peekedByte {
		return g.speak(c)
	}
	return g.out(c)
}

// out takes a connection from the gate, to be closed without mu. The caller holds mu.
func (g *Gate) out(c *GatedConn) []*GatedConn {
	g.queues.put(c, gateDone)
	g.dropped++
	if now := time.Now(); now.Sub(g.noticed) >= gateNotice {
		g.cfg.Log.Warn("too many connections that do not prove who they are: dropping those of the busiest addresses",
			"address", g.Addr().String(), "dropped", g.dropped, "remote", c.source.String())
		g.noticed, g.dropped = now, 0
	}
	return []*GatedConn{c}
}

// speak gives a connection that has spoken a place, or lets it wait for one. It returns what is to be closed. The caller
// holds mu.
func (g *Gate) speak(c *GatedConn) (out []*GatedConn) {
	g.queues.put(c, gateWaiting)
	if g.queues.count[gateWaiting] > maxWaiting*g.cfg.Handshakes {
		list := g.queues.largest(gateWaiting).open[gateWaiting]
		out = g.out(list[len(list)-1]) // the newest: others have waited longer
	}
	return append(out, g.serve()...)
}

// serve gives places to connections that wait. It returns what lost its place. The caller holds mu.
func (g *Gate) serve() (out []*GatedConn) {
	for g.queues.count[gateWaiting] > 0 {
		c := g.queues.neediest()
		if g.queues.count[gateHandshake] >= g.cfg.Handshakes {
			most := g.queues.largest(gateHandshake)
			oldest := most.open[gateHandshake][0]
			// Strictly fewer after the change too: two busy addresses would else push out each other's for ever.
			if wait := unprovenAge - time.Since(oldest.since); wait > 0 && g.queues.sources[c.source].load(gateHandshake, 1) >= most.load(gateHandshake, 0) {
				g.lookAgain(wait)
				break
			}
			out = append(out, g.out(oldest)...)
		}
		_ = c.SetReadDeadline(time.Time{})
		g.queues.put(c, gateHandshake)
		g.ready = append(g.ready, c)
	}
	g.tell()
	return out
}

// heard takes what came of waiting for a silent connection's first byte.
func (g *Gate) heard(c *GatedConn, found peeked) {
	g.mu.Lock()
	var out []*GatedConn
	switch {
	case c.phase != gateSilent: // dropped, or seen to speak by another
	case found == peekedByte:
		out = g.speak(c)
	default:
		g.queues.put(c, gateDone)
		out = append(out, c)
	}
	g.mu.Unlock()
	drop(out)
}

// release takes a connection from the gate that was proven or closed.
func (g *Gate) release(c *GatedConn) {
	g.mu.Lock()
	var out []*GatedConn
	if c.phase != gateDone {
		g.queues.put(c, gateDone)
		out = g.serve()
	}
	g.mu.Unlock()
	drop(out)
}

// lookAgain serves again after a while. The caller holds mu.
func (g *Gate) lookAgain(after time.Duration) {
	if g.timer == nil {
		g.timer = time.AfterFunc(after, func() {
			g.mu.Lock()
			g.timer = nil
			out := g.serve()
			g.mu.Unlock()
			drop(out)
		})
	}
}

// Close closes the listener and what Accept has not returned; other connections stay open.
func (g *Gate) Close() error {
	g.end(net.ErrClosed)
	return g.Listener.Close()
}

// end lets Accept fail with err.
func (g *Gate) end(err error) {
	g.mu.Lock()
	if g.ended != nil {
		g.mu.Unlock()
		return
	}
	g.ended = err
	close(g.closed)
	if g.timer != nil {
		g.timer.Stop()
	}
	out := slices.DeleteFunc(g.ready, func(c *GatedConn) bool { return c.phase != gateHandshake })
	for _, s := range g.queues.sources {
		out = append(out, s.open[gateSilent]...)
		out = append(out, s.open[gateWaiting]...)
	}
	for _, c := range out {
		g.queues.put(c, gateDone)
	}
	g.ready = nil
	g.mu.Unlock()
	drop(out)
}
