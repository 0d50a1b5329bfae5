package nodetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/trust"
	"github.com/swarmd/swarmd/merge/exchange"
	"github.com/swarmd/swarmd/node"
)

const (
	serviceMerge = node.MergeProtocol
	serviceFetch = "/swarm/fetch/1"
)

// sl is a Swarm Learning node. What is below host is one life.
type sl struct {
	swarm *Swarm
	id    nodeID

	container *container // nil: the program dies with the daemon
	host      *host
	engine    *session.Engine
	cancel    context.CancelFunc
	tasks     *sync.WaitGroup

	mu       sync.Mutex // guards what follows
	slots    *slots     // of the newest session
	disk     *disk      // of all lives' slots
	reported *round.Report
	runs     []*Run // of the program, oldest first
	journal  string // path, if programs outlive their daemons
	record   *session.Journal
	refused  []error // why streams were turned away, oldest first
	accuses  bool    // it lays what it has merged to another
}

// start begins a life; the program starts when the node is registered.
func (n *sl) start() error {
	n.host = n.swarm.Network.attach(n.id, "sl")
	log := n.swarm.log.With("on", n.id.name)
	api, err := n.swarm.client(n.id, n.host)
	if err != nil {
		return err
	}
	hub := exchange.NewHub(node.MergeConfig(n.id.key))
	bans := &node.Bans{Cut: n.host.cutOff}
	n.host.refuse(bans.Check)
	ctl := control{Control: node.Control{Client: api, Bans: bans}, sl: n}
	domains, err := n.swarm.authority.Domains()
	if err != nil {
		return err
	}
	guard := node.NewGuard(api, n.id.source, domains, n.swarm.cfg.AllowPeers[n.id.name], log)
	engine := session.New(session.Config{
		Trust: guard, Sign: n.id.key.Sign, Compare: ctl.Compare,
		Peer: n.id.name, Control: ctl, Explainer: ctl, Log: log, ExpectedPeers: uint32(n.swarm.cfg.ExpectedPeers), //nolint:gosec // small
		Exchange: deceiver{&node.Exchanger{Hub: hub, Network: slNet{n.host, n.swarm.taps, guard, n.id.key}, Key: n.id.key, Peer: n.id.name}, n.swarm.taps},
		NewSlots: n.newSlots, OpenSlots: n.openSlots, Journal: n.openJournal(log),
	})
	n.takeUp(engine)
	ctx, cancel := context.WithCancel(context.Background())
	n.engine, n.cancel, n.tasks = engine, cancel, new(sync.WaitGroup)
	door := node.NewDoorman(engine, guard)
	n.host.handle(serviceMerge, func(c *conn) {
		from := c.remote().peerID
		if err := door.Admit(ctx, from, c.remote().spiffeID()); err != nil {
			n.noteRefusal(c, err)
			from += ": " + err.Error()
		}
		if err := hub.Serve(ctx, &tapped{conn: c, taps: n.swarm.taps, owner: true, key: n.id.key}, from); err != nil && ctx.Err() == nil {
			log.Debug("merge stream ended", "peer", c.remote().name, "err", err)
		}
	})
	n.host.handle(serviceFetch, func(c *conn) { n.serveFetch(c, engine) })
	run, train := n.beginRun(engine)
	host := n.host
	n.tasks.Go(func() {
		defer func() {
			hub.Close()
			_ = api.Close() // idle connections; never fails
		}()
		n.live(ctx, api, life{engine, run, train, host})
	})
	return nil
}

// life is one daemon's.
type life struct {
	engine *session.Engine
	run    *Run
	train  func(ctx context.Context) error // blocks until the program has ended
	host   *host
}

// beginRun gives a daemon its program: a new run, or the one that lives on.
func (n *sl) beginRun(engine *session.Engine) (*Run, func(ctx context.Context) error) {
	h := node.BridgeHandler{Engine: engine, Peer: n.id.name}
	if c := n.container; c != nil && !c.run.isDone() {
		return c.run, c.serve(h)
	}
	run := newRun(n, n.swarm.program(n.id.index))
	n.mu.Lock()
	n.runs = append(n.runs, run)
	n.mu.Unlock()
	if !n.swarm.cfg.Containers {
		return run, func(ctx context.Context) error { return run.train(ctx, h) }
	}
	n.container = newContainer(run)
	return run, n.container.serve(h)
}

// live registers, then runs engine and program until ctx ends, as node's SL does.
func (n *sl) live(ctx context.Context, api *client.Client, l life) {
	err := api.Register(ctx, client.Registration{
		Node: client.NodeInfo{Name: n.id.name, Role: "sl", Host: n.id.name, FSPort: portFS, Runtime: "process"}, Key: n.id.key,
	})
	if err != nil {
		if n.container == nil {
			l.run.finish(err)
		}
		return
	}
	parts, partsCtx := errgroup.WithContext(ctx)
	parts.Go(func() error { return l.engine.Run(partsCtx) })
	parts.Go(func() error {
		<-l.engine.Running()
		err := l.train(partsCtx)
		if ctx.Err() != nil && n.container != nil {
			return errLeft // the program lives on
		}
		l.run.finish(err)
		if ctx.Err() == nil {
			leave(ctx, l.engine, err)
		}
		return errLeft
	})
	_ = parts.Wait() // errLeft
	if ctx.Err() == nil {
		l.host.detach() // it has exited
	}
}

// errLeft stops a node whose program has ended.
var errLeft = errors.New("the program has ended")

// leave does what node does after a program's end.
func leave(ctx context.Context, engine *session.Engine, err error) {
	if err != nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_ = engine.ProgramExited(ctx, 1, err.Error()) // told or not, the node goes
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	_ = engine.Linger(ctx) // the same
}

// end ends this life.
func (n *sl) end(crash bool) {
	if n.cancel == nil {
		return
	}
	if crash {
		n.host.detach()
	}
	n.cancel()
	n.cancel = nil
	n.disk.hang(false)
	n.tasks.Wait()
	n.host.detach()
}

// up tells whether the node runs.
func (n *sl) up() bool { return n.cancel != nil && !n.host.isGone() }

func (n *sl) newSlots(size int64) (session.Slots, error) {
	s := newSlots(size, n.disk)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slots = s
	return s, nil
}

// last returns the newest run of the program, nil before the first.
func (n *sl) last() *Run {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.runs) == 0 {
		return nil
	}
	return n.runs[len(n.runs)-1]
}

// control notes what the swarm was told.
type control struct {
	node.Control
	sl *sl
}

// Report implements session.Control.
func (c control) Report(ctx context.Context, r *round.Report) (round.Answer, error) {
	r = c.sl.slander(r)
	res, err := c.Control.Report(ctx, r)
	if err == nil && r.Session != "" {
		c.sl.mu.Lock()
		c.sl.reported = r
		c.sl.mu.Unlock()
	}
	return res, err
}

// slNet is node.Network in memory.
type slNet struct {
	host  *host
	taps  *taps
	guard *trust.Guard
	key   crypto.PrivKey
}

var _ node.Network = slNet{}

// OpenMerge implements node.Network.
func (s slNet) OpenMerge(ctx context.Context, to *round.Participant, _ bool) (exchange.Stream, error) {
	c, err := s.dial(ctx, to.Node, to.SPIFFEID, to.Host, to.PeerID, serviceMerge)
	if err != nil { // never a nil *conn in an interface
		return nil, err
	}
	return &tapped{conn: c, taps: s.taps, key: s.key}, nil
}

// dial opens a stream and holds who answers to its registration.
func (s slNet) dial(ctx context.Context, name, spiffeID, host, peerID, service string) (*conn, error) {
	c, err := s.host.dial(ctx, host, peerID, service)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.guard.Allowed(c.remote().spiffeID()), node.CheckIdentity(name, spiffeID, c.remote().spiffeID())); err != nil {
		_ = c.Reset()
		return nil, err
	}
	return c, nil
}

// FetchModel implements node.Network.
func (s slNet) FetchModel(ctx context.Context, from *round.Session, m round.Ref, bytes int64, dst io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := s.dial(ctx, from.Node, from.SPIFFEID, from.Host, from.PeerID, serviceFetch)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Reset() })
	defer stop()
	if err := json.NewEncoder(c).Encode(m); err != nil {
		return err
	}
	n, err := io.Copy(dst, io.LimitReader(c, bytes))
	if err == nil && n < bytes {
		err = &p2p.RefusedError{Reason: fmt.Sprintf("%s does not hold the model of round %d", from.Node, m.Round)}
	}
	return err
}

func (n *sl) serveFetch(c *conn, engine *session.Engine) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	var req round.Ref
	if err := json.NewDecoder(c).Decode(&req); err != nil {
		return
	}
	if err := node.Enrolled(engine.View(), c.remote().peerID, c.remote().spiffeID()); err != nil {
		n.noteRefusal(c, err)
		return
	}
	r, _, err := engine.OpenModel(req)
	if err != nil {
		return
	}
	defer func() { _ = r.Close() }()
	_, _ = io.Copy(c, r) // the other side counts
}

// client makes a client of the API for a host.
func (s *Swarm) client(id nodeID, h *host) (*client.Client, error) {
	t := &http.Transport{
		Protocols: new(http.Protocols), IdleConnTimeout: 2 * time.Minute,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 4 * time.Second},
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			name, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			c, err := h.dial(ctx, name, "", serviceAPI)
			if err != nil { // never a nil *conn in an interface
				return nil, err
			}
			return c, nil
		},
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	s.transports = append(s.transports, t)
	var sns []string
	for i := range s.order { // its own SN first, as a user would configure it
		sns = append(sns, net.JoinHostPort(s.order[(i+id.index)%len(s.order)].id.name, strconv.Itoa(portAPI)))
	}
	return client.New(client.Config{
		SNs: sns[:1], SwarmID: SwarmID, Source: id.source, Log: s.log.With("client", id.name), Transport: t,
		Exporter: func() ([]byte, error) { return []byte(exporter), nil },
	})
}

// slots are weight files in memory.
type slots struct {
	files [3]memory // local and the two that take turns
	mu    sync.Mutex
	turn  int
}

var _ session.Slots = (*slots)(nil)

var slotNames = [3]string{"local", "merged-0", "merged-1"}

func newSlots(size int64, d *disk) *slots {
	s := &slots{}
	for i := range s.files {
		s.files[i].b, s.files[i].disk = make([]byte, size), d
	}
	return s
}

func (s *slots) file(name string) *memory {
	for i, n := range slotNames {
		if n == name {
			return &s.files[i]
		}
	}
	return nil
}

func (s *slots) pick(next int) *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &s.files[1+(s.turn+next)%2]
}

// Local implements session.Slots.
func (s *slots) Local() session.Slot { return &s.files[0] }

// LocalName implements session.Slots.
func (s *slots) LocalName() string { return slotNames[0] }

// Merging implements session.Slots.
func (s *slots) Merging() session.Slot { return s.pick(0) }

// Committed implements session.Slots.
func (s *slots) Committed() session.Slot { return s.pick(1) }

// Commit implements session.Slots.
func (s *slots) Merged(string) {}

func (s *slots) Commit() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	return slotNames[1+(s.turn+1)%2]
}

// Close implements session.Slots.
func (s *slots) Close() error { return nil }

// memory is one weight file. Like a real one it bears readers and writers at once.
type memory struct {
	disk *disk
	mu   sync.Mutex
	b    []byte
}

// disk may hang: then what is written to it waits until it answers.
type disk struct {
	mu      sync.Mutex
	answers chan struct{} // closed when it answers; nil: it does
}

// hang makes later writes wait, or lets all go on.
func (d *disk) hang(hangs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if hangs == (d.answers != nil) {
		return
	}
	if hangs {
		d.answers = make(chan struct{})
		return
	}
	close(d.answers)
	d.answers = nil
}

func (d *disk) wait() {
	d.mu.Lock()
	answers := d.answers
	d.mu.Unlock()
	if answers != nil {
		<-answers
	}
}

var errRange = errors.New("outside of the file")

// ReadAt implements io.ReaderAt.
func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if off < 0 || off > int64(len(m.b)) {
		return 0, errRange
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.disk.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if off < 0 || off+int64(len(p)) > int64(len(m.b)) {
		return 0, errRange
	}
	return copy(m.b[off:], p), nil
}
