package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/reach"
)

const (
	// dialTimeout bounds TCP and TLS handshake together.
	dialTimeout = 3 * time.Second
	// A silent connection is probed after pingAfter and given up pingFor later, so a dead SN is found in about ten seconds.
	pingAfter = 5 * time.Second
	pingFor   = 4 * time.Second
	// maxMessage is the largest answer that is read, in bytes: a contract's layout of 1 MiB and many sessions fit.
	maxMessage = 16 << 20
	// maxTasks is the largest answer about tasks: what one host is shown of all live assignments, if operators have said as much on its parts
	// as the state takes. A host that could not read it would hear of no assignment, and end them all.
	maxTasks = 32 << 20
	// maxKnown bounds the SNs whose stubs are kept.
	maxKnown = 64
)

// connSet is a set of connections that were all made with one SVID.
type connSet struct {
	svid       *x509svid.SVID // nil with Config.Transport
	rt         http.RoundTripper
	heartbeats http.RoundTripper // for heartbeats: see newHeartbeatTransport
	idle       func()

	mu    sync.Mutex
	known map[string]*stubs // by address of the SN; making them costs as much as a call
}

// stubs returns the services of an SN over the connections of a set.
func (cs *connSet) stubs(sn string) *stubs {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	s := cs.known[sn]
	if s == nil {
		if len(cs.known) >= maxKnown || cs.known == nil {
			cs.known = map[string]*stubs{}
		}
		s = newStubs(cs.rt, cs.heartbeats, sn)
		cs.known[sn] = s
	}
	return s
}

func (cs *connSet) close() {
	if cs.idle != nil {
		cs.idle()
	}
}

// stubs are the services of one SN.
type stubs struct {
	services  []any                               // a client of each
	heartbeat swarmv1connect.SessionServiceClient // for heartbeats
	watch     swarmv1connect.SessionServiceClient // for WatchContract alone: what is packed is not compressed once more
}

// service returns the client of a service of one SN, with heartbeat that of heartbeats. newStubs makes one of each.
func service[S any](s *stubs, heartbeat bool) S {
	if out, ok := any(s.heartbeat).(S); ok && heartbeat {
		return out
	}
	var out S
	for _, one := range s.services {
		if is, ok := one.(S); ok {
			out = is
		}
	}
	return out
}

// connections are a client's connections.
type connections struct {
	cfg      Config
	failures reach.Failures // of SNs' addresses
	looks    atomic.Bool    // an address is dialled again now

	mu  sync.Mutex
	now *connSet // with the SVID of now; nil before the first call
}

// close ends idle connections.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil {
		c.now.close()
		c.now = nil
	}
}

// stubs returns the services of an SN over connections with our newest SVID. After a rotation new calls get new
// connections; streams that are open stay on theirs until the server ends them.
func (c *connections) stubs(sn string) (*stubs, error) {
	fresh, err := c.fresh()
	if err != nil {
		return nil, err
	}
	return fresh.stubs(sn), nil
}

func newStubs(rt, heartbeats http.RoundTripper, sn string) *stubs {
	over := func(rt http.RoundTripper) *http.Client {
		return &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	h := over(rt)
	url, opt := "https://"+sn, connect.WithReadMaxBytes(maxMessage)
	return &stubs{
		services: []any{
			swarmv1connect.NewSwarmServiceClient(h, url, opt),
			swarmv1connect.NewNodeServiceClient(h, url, opt),
			swarmv1connect.NewSessionServiceClient(h, url, opt),
			swarmv1connect.NewContractServiceClient(h, url, opt),
			swarmv1connect.NewTaskServiceClient(h, url, connect.WithReadMaxBytes(maxTasks)),
			swarmv1connect.NewLedgerServiceClient(h, url, opt),
			swarmv1connect.NewModelServiceClient(h, url, opt),
			swarmv1connect.NewBackupServiceClient(h, url, opt),
			swarmv1connect.NewRightsServiceClient(h, url, opt),
			swarmv1connect.NewLogServiceClient(h, url, opt),
		},
		heartbeat: swarmv1connect.NewSessionServiceClient(over(heartbeats), url, opt),
		watch:     swarmv1connect.NewSessionServiceClient(h, url, opt, connect.WithAcceptCompression("gzip", nil, nil)),
	}
}

func (c *connections) fresh() (*connSet, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.Transport != nil {
		return &connSet{rt: c.cfg.Transport, heartbeats: c.cfg.Transport}, nil
	}
	svid, err := c.cfg.Source.GetX509SVID()
	if err != nil {
		return nil, &dialError{fmt.Errorf("get own SVID: %w", err)}
	}
	if c.now != nil && c.now.svid.Certificates[0].Equal(svid.Certificates[0]) {
		return c.now, nil
	}
	if c.now != nil {
		c.now.close()
	}
	t, heartbeats := newTransport(), newHeartbeatTransport()
	t.DialTLSContext = func(ctx context.Context, _, addr string) (net.Conn, error) { return c.dial(ctx, svid, addr, "h2") }
	heartbeats.DialTLSContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
		return c.dial(ctx, svid, addr, "http/1.1")
	}
	c.now = &connSet{svid: svid, rt: t, heartbeats: heartbeats, idle: func() {
		t.CloseIdleConnections()
		heartbeats.CloseIdleConnections()
	}}
	return c.now, nil
}

// outlived reports whether a stream was ended because the SVID of its connection was, while there is a newer one by now: a
// rotation, of which nobody needs to hear.
func (c *connections) outlived(used *connSet, sn string, err error) bool {
	if used.svid == nil || sortOut(sn, err).Reason != ReasonSVIDExpired {
		return false
	}
	now, err := c.fresh()
	return err == nil && now != used
}

// newHeartbeatTransport is the transport of heartbeats, which come one after the other, two in a round: HTTP/1.1 on a connection of
// their own, where a call is one write and one read at either end, and no goroutine is started for it. In rounds of a small
// model HTTP/2 took more than what the calls did.
func newHeartbeatTransport() *http.Transport {
	t := &http.Transport{Protocols: new(http.Protocols), IdleConnTimeout: 2 * time.Minute}
	t.Protocols.SetHTTP1(true)
	return t
}

func newTransport() *http.Transport {
	t := &http.Transport{
		Protocols:       new(http.Protocols),
		HTTP2:           &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingFor},
		IdleConnTimeout: 2 * time.Minute,
	}
	t.Protocols.SetHTTP2(true)
	return t
}

// againAfter is how long an SN's port that has refused is left alone.
const againAfter = 5 * time.Second

// shut returns how an address could not be dialled a short while ago; its Err is nil if it could. A port that has refused is dialled again: no
// call goes to an SN while another one answers, so who was about to start would seem to refuse minutes later, and counts only after that.
func (c *connections) shut(addr string) reach.Failure {
	f, now := c.failures.Last(addr), time.Now()
	if !f.Lately(now) {
		return reach.Failure{}
	}
	if f.Err.Cause != reach.CauseRefused {
		return f
	}
	if now.Sub(f.At) >= againAfter && c.looks.CompareAndSwap(false, true) {
		go func() {
			defer c.looks.Store(false)
			c.look(addr)
		}()
	}
	if f.At.Sub(f.Since) < againAfter {
		return reach.Failure{}
	}
	return f
}

// look dials an address, and notes what came of it.
func (c *connections) look(addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	conn, err := c.cfg.Dial(ctx, "tcp", addr)
	if err == nil {
		_ = conn.Close() // that it is there was all that was asked
	} else {
		err = reach.Classify(addr, err)
	}
	c.failures.Note(addr, err)
}

// dial makes a TLS 1.3 connection to an SN with this SVID, to speak this protocol; the other side must have the role sn.
func (c *connections) dial(ctx context.Context, svid *x509svid.SVID, addr, protocol string) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := c.cfg.Dial(ctx, "tcp", addr)
	switch {
	case err == nil:
		c.failures.Note(addr, nil)
	case !errors.Is(ctx.Err(), context.Canceled): // else who called has ended it
		c.failures.Note(addr, reach.Classify(addr, err))
	}
	if err != nil {
		return nil, &dialError{err}
	}
	cfg := identity.ClientTLS(newFixed(svid, c.cfg.Source), c.cfg.Domains, identity.RoleSN)
	cfg.NextProtos = []string{protocol}
	cfg.ServerName, _, _ = net.SplitHostPort(addr) // for proxies, which route by it; the SVID alone says who answers
	bounded := &mortal{Conn: raw}
	conn := tls.Client(bounded, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error says more
		return nil, &dialError{err}
	}
	bounded.end(conn.ConnectionState().PeerCertificates[0].NotAfter)
	return conn, nil
}

// mortal is a connection that ends with the SVID of its SN, as an SN ends calls with that of their caller: one whose SVID is
// not renewed must not go on through what is open.
type mortal struct {
	net.Conn

	mu     sync.Mutex
	timer  *time.Timer
	closed bool
}

// clockCheck is how often the wall clock is looked at: timers stand still while a machine sleeps, and clocks are set.
const clockCheck = time.Minute

// end closes the connection at a time.
func (m *mortal) end(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := time.Until(at)
	if left > 0 && !m.closed {
		m.timer = time.AfterFunc(min(left, clockCheck), func() { m.end(at) })
	}
	if left <= 0 {
		_ = m.Conn.Close() // who uses it finds out
	}
}

// Close closes the connection.
func (m *mortal) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.timer != nil {
		m.timer.Stop()
	}
	return m.Conn.Close()
}

// newFixed is a source with one SVID, so that it is known with which one a connection was made.
func newFixed(svid *x509svid.SVID, src identity.Source) identity.Source {
	if r, ok := src.(identity.CertReader); ok {
		return struct {
			fixed
			identity.CertReader
		}{fixed{svid, src}, r}
	}
	return fixed{svid, src}
}

type fixed struct {
	*x509svid.SVID
	x509bundle.Source
}
