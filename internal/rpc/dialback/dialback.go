// Package dialback dials SLs back that have registered, and is the leader's memory of what came of it.
package dialback

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/reach"
	"github.com/swarmd/swarmd/internal/rpc/quota"
	"github.com/swarmd/swarmd/internal/text"
)

// Answers of a DialBack.
const (
	Yes      = "yes"       // the node showed its key
	No       = "no"        // no connection, or no node that accepts it: see the cause
	OtherKey = "other key" // another node answers there
	NotTried = "not tried" // no connection is made there, or not yet: see the cause
)

// causeOften is the cause of NotTried of a node that has another address again and again.
const causeOften = "its address is another one too often: it is tried in some minutes"

const (
	atOnce   = 4   // dials that run
	maxQueue = 256 // registrations that wait; beyond them none is checked
	timeout  = 5 * time.Second
	maxCause = 200 // bytes
	maxSeen  = 16  // addresses of a node key that are remembered
	tryAgain = 5 * time.Minute
)

// Network makes first contact as p2p.Network does.
type Network interface {
	Contact(ctx context.Context, hostport string, role identity.Role) (p2p.Peer, error)
}

// Desk dials each registered SL once, on its advertised address alone, and keeps the answers. So that nobody has it scan a network, addresses that a node
// key had not before are few over time, and what is no address of another host is not dialled. Nothing of it is replicated: with another leader it is gone.
// Safe for concurrent use.
type Desk struct {
	self  string
	now   func() time.Time
	rates *quota.Rates
	queue chan job

	mu     sync.Mutex
	stamps int64            // newest at_unix_ms given out, as nodes tell answers apart by it
	by     map[string]*card // by node name
}

// job is one dial.
type job struct {
	card *card
	node string
}

// card is what is known of a node's last registration.
type card struct {
	peerID, spiffeID, hostport string
	port                       uint16
	here                       bool                    // it registered from this host
	seen                       map[netip.AddrPort]bool // where its node key was dialled
	paid                       bool                    // the rate of its SPIFFE ID has a dial for it
	queued                     bool                    // or dialled
	again                      time.Time               // when to queue it once more; zero: not
	answer                     *swarmv1.DialBack       // nil: not checked, or not yet
}

// New makes the desk of the SN called self. now is the clock, nil for the real one. Call Run.
func New(self string, now func() time.Time) *Desk {
	if now == nil {
		now = time.Now
	}
	return &Desk{self: self, now: now, rates: quota.NewRates(now), queue: make(chan job, maxQueue), by: map[string]*card{}}
}

// Registered has a node dialled that has registered just now, here: from this host. It does not block: beyond the queue's length, and the rate of its SPIFFE
// ID, the node is dialled when Of is called later.
func (d *Desk) Registered(view *state.State, n state.Node, here bool) {
	if n.Role != naming.RoleSL || n.Host == "" || n.FSPort == 0 {
		return
	}
	c := &card{peerID: n.PeerID, spiffeID: n.SPIFFEID, hostport: hostPort(&n), port: n.FSPort, here: here, seen: map[netip.AddrPort]bool{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.by[n.Name]; old != nil && old.peerID == c.peerID {
		c.seen = old.seen
	}
	d.by[n.Name] = c // what came of the last dial is no answer to this registration
	if len(d.by) > len(view.Nodes) {
		maps.DeleteFunc(d.by, func(name string, _ *card) bool { return view.Nodes[name] == nil })
	}
	d.advance(n.Name, c)
}

// advance queues a node's dial if there is to be one now, and room. The caller holds mu.
func (d *Desk) advance(node string, c *card) {
	if c.queued && (c.again.IsZero() || d.now().Before(c.again)) {
		return
	}
	if !c.paid && d.rates.TakeDialBack(c.spiffeID) != nil {
		return
	}
	c.paid = true
	select {
	case d.queue <- job{card: c, node: node}:
		c.paid, c.queued, c.again = false, true, time.Time{}
	default:
	}
}

// Of is what came of dialling a node back, nil if that is not known of its key and address.
func (d *Desk) Of(n *state.Node) *swarmv1.DialBack {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.by[n.Name]
	if c == nil || c.peerID != n.PeerID || c.hostport != hostPort(n) {
		return nil
	}
	d.advance(n.Name, c)
	return proto.CloneOf(c.answer)
}

// Warning says what is wrong with the way to a node, and what to do, in one line; empty: nothing is, or it is not known.
func (d *Desk) Warning(n *state.Node) string { return warning(d.Of(n)) }

// Run dials until ctx ends, and returns nil.
func (d *Desk) Run(ctx context.Context, network Network) error {
	var dials errgroup.Group
	for range atOnce {
		dials.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case j := <-d.queue:
					d.dial(ctx, network, j)
				}
			}
		})
	}
	return dials.Wait()
}

// dial carries out a job, unless its node has registered again since.
func (d *Desk) dial(ctx context.Context, network Network, j job) {
	if !d.current(j) {
		return
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	who, err := network.Contact(reach.Only(within, func(a netip.Addr) string { return d.barred(j.card, a) }), j.card.hostport, identity.RoleSL)
	if ctx.Err() != nil {
		return // this SN's end says nothing of the node
	}
	answer, cause := judge(who, err, j.card.peerID)
	d.mu.Lock()
	defer d.mu.Unlock()
	if answer == NotTried && cause == causeOften {
		j.card.again = d.now().Add(tryAgain)
	}
	if last := j.card.answer; last.GetAnswer() != answer || last.GetCause() != cause {
		d.stamps = max(d.stamps+1, d.now().UnixMilli())
		j.card.answer = &swarmv1.DialBack{Answer: answer, Cause: cause, Address: j.card.hostport, Sn: d.self, AtUnixMs: d.stamps}
	}
}

// barred says why an address is not dialled, which the node's may resolve to, to another one each time. One at which its key was not dialled before is
// counted.
func (d *Desk) barred(c *card, a netip.Addr) string {
	if why := reach.Remote(a); why != "" && !(c.here && a.IsLoopback()) {
		return why
	}
	at := netip.AddrPortFrom(a, c.port)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.seen[at] {
		return ""
	}
	if d.rates.TakeAddress(c.peerID) != nil || len(c.seen) > 0 && d.rates.TakeMove(c.spiffeID) != nil {
		return causeOften
	}
	if len(c.seen) >= maxSeen {
		clear(c.seen)
	}
	c.seen[at] = true
	return ""
}

func (d *Desk) current(j job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.by[j.node] == j.card
}

// judge makes an answer of what came of a dial, with the cause of No and NotTried.
func judge(who p2p.Peer, err error, peerID string) (answer, cause string) {
	var dial *reach.Error
	var swarm *p2p.SwarmMismatchError
	var barred *reach.BarredError
	switch {
	case errors.As(err, &barred):
		return NotTried, barred.Why
	case err == nil && who.ID.String() == peerID:
		return Yes, ""
	case err == nil, errors.As(err, &swarm), errors.Is(err, identity.ErrNotAuthorized): // a node of another role or trust domain
		return OtherKey, ""
	case errors.As(err, &dial):
		return No, dial.Cause
	case errors.Is(err, p2p.ErrNoSwarmNode):
		return No, p2p.ErrNoSwarmNode.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return No, reach.CauseTimeout
	}
	return No, text.Clip(text.Line(err.Error()), maxCause)
}

// warning is Desk.Warning of an answer.
func warning(d *swarmv1.DialBack) string {
	_, port, _ := net.SplitHostPort(d.GetAddress())
	remedy := fmt.Sprintf("; check from the host of %s: swarmctl identity check %s", d.GetSn(), d.GetAddress())
	switch d.GetAnswer() {
	case No:
		return fmt.Sprintf("%s could not reach its port %s (TCP): %s; open TCP %s inbound on its host, or register another address with --host-ip; other SLs that it can dial still merge with it%s",
			d.GetSn(), d.GetAddress(), d.GetCause(), port, remedy)
	case NotTried:
		if d.GetCause() == causeOften {
			return ""
		}
		return fmt.Sprintf("%s does not dial its port %s (TCP): it is %s; register one that others reach with --host-ip", d.GetSn(), d.GetAddress(), d.GetCause())
	case OtherKey:
		return fmt.Sprintf("at its port %s (TCP) %s found another node; its --host-ip or --sl-fs-port must lead to it%s", d.GetAddress(), d.GetSn(), remedy)
	}
	return ""
}

func hostPort(n *state.Node) string {
	return net.JoinHostPort(n.Host, strconv.FormatUint(uint64(n.FSPort), 10))
}
