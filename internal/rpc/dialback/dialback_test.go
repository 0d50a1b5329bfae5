package dialback_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/reach"
	"github.com/swarmd/swarmd/internal/rpc/dialback"
)

// network answers all dials alike, when it may.
type network struct {
	mu     sync.Mutex
	dialed []string
	running,
	most int
	who     peer.ID
	err     error
	resolve func() string // where names lead; nil: nobody looks
	hold    chan struct{} // dials wait until it is closed; nil: none does
}

func (n *network) Contact(ctx context.Context, hostport string, role identity.Role) (p2p.Peer, error) {
	if _, limited := ctx.Deadline(); !limited || role != identity.RoleSL {
		return p2p.Peer{}, errors.New("a dial without bounds")
	}
	resolved := hostport
	if n.resolve != nil {
		resolved = n.resolve()
	}
	if at, err := netip.ParseAddrPort(resolved); err == nil {
		if err := reach.Control(ctx, "tcp", at.String(), nil); err != nil {
			return p2p.Peer{}, &reach.Error{HostPort: hostport, Cause: reach.CauseTimeout, Err: &net.OpError{Op: "dial", Err: err}}
		}
	}
	n.mu.Lock()
	n.dialed = append(n.dialed, hostport)
	n.running++
	n.most = max(n.most, n.running)
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.running--
	}()
	if n.hold != nil {
		select {
		case <-n.hold:
		case <-ctx.Done():
			return p2p.Peer{}, ctx.Err()
		}
	}
	return p2p.Peer{ID: n.who}, n.err
}

func newID(t *testing.T) peer.ID {
	t.Helper()
	key, _, err := p2pcrypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.PeerID(key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func learner(name string, id peer.ID) state.Node {
	return state.Node{Name: name, Role: "sl", SPIFFEID: "spiffe://x/swarm/sl/" + name, PeerID: id.String(), Host: name + ".example", FSPort: 30305, APIPort: 7, P2PPort: 8}
}

func view(nodes ...state.Node) *state.State {
	v := &state.State{Nodes: map[string]*state.Node{}}
	for _, n := range nodes {
		v.Nodes[n.Name] = &n
	}
	return v
}

// bubble runs a test in virtual time, with a desk that dials over the network.
func bubble(t *testing.T, nw *network, test func(t *testing.T, d *dialback.Desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := dialback.New("sn-1", nil)
		done := make(chan error)
		go func() { done <- d.Run(ctx, nw) }()
		test(t, d)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAnswers(t *testing.T) {
	id, other := newID(t), newID(t)
	dial := func(cause string) error {
		return fmt.Errorf("contact: %w", &reach.Error{HostPort: "sl-a.example:30305", Cause: cause, Err: errors.New("no")})
	}
	for name, x := range map[string]struct {
		who           peer.ID
		err           error
		answer, cause string
	}{
		"reachable":        {who: id, answer: dialback.Yes},
		"another key":      {who: other, answer: dialback.OtherKey},
		"another role":     {err: fmt.Errorf("contact: %w", identity.ErrNotAuthorized), answer: dialback.OtherKey},
		"another swarm":    {err: fmt.Errorf("contact: %w", &p2p.SwarmMismatchError{Mine: "a", Theirs: "b"}), answer: dialback.OtherKey},
		"refused":          {err: dial(reach.CauseRefused), answer: dialback.No, cause: "refused"},
		"unresolved":       {err: dial(reach.CauseUnresolved), answer: dialback.No, cause: "unresolved"},
		"no answer":        {err: dial(reach.CauseTimeout), answer: dialback.No, cause: "timeout"},
		"another program":  {err: fmt.Errorf("%w: %w", p2p.ErrNoSwarmNode, context.DeadlineExceeded), answer: dialback.No, cause: "no swarm node answers there"},
		"a slow handshake": {err: context.DeadlineExceeded, answer: dialback.No, cause: "timeout"},
		"a refusal":        {err: errors.New("refused by the peer:\nall\x1b[2J"), answer: dialback.No, cause: "refused by the peer: all"},
	} {
		t.Run(name, func(t *testing.T) {
			net := &network{who: x.who, err: x.err}
			bubble(t, net, func(t *testing.T, d *dialback.Desk) {
				n := learner("sl-a", id)
				if d.Of(&n) != nil {
					t.Error("an answer before the dial")
				}
				d.Registered(view(n), n, false)
				synctest.Wait()
				got := d.Of(&n)
				want := &swarmv1.DialBack{Answer: x.answer, Cause: x.cause, Address: "sl-a.example:30305", Sn: "sn-1", AtUnixMs: got.GetAtUnixMs()}
				if got.GetAtUnixMs() == 0 || got.String() != want.String() {
					t.Errorf("got %v, want %v", got, want)
				}
				const check = "check from the host of sn-1: swarmctl identity check sl-a.example:30305"
				if w := d.Warning(&n); (w != "") != (x.answer != dialback.Yes) || strings.HasSuffix(w, check) != (w != "") {
					t.Errorf("warning %q", w)
				}
				if diff := cmp.Diff([]string{"sl-a.example:30305"}, net.dialed); diff != "" {
					t.Errorf("dialled (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestOncePerRegistration: each registration has one dial, of an SL's own port alone, whose answer replaces the last one.
func TestOncePerRegistration(t *testing.T) {
	id := newID(t)
	net := &network{who: id}
	bubble(t, net, func(t *testing.T, d *dialback.Desk) {
		n := learner("sl-a", id)
		sn := n
		sn.Role = "sn"
		portless := n
		portless.FSPort = 0
		d.Registered(view(n), sn, false)
		d.Registered(view(n), portless, false)
		d.Registered(view(n), n, false)
		synctest.Wait()
		first := d.Of(&n)
		moved := n
		moved.Host = "elsewhere.example"
		if len(net.dialed) != 1 || first.GetAnswer() != dialback.Yes || d.Of(&moved) != nil {
			t.Errorf("dialled %v; %v; of another address %v", net.dialed, first, d.Of(&moved))
		}
		net.err = &reach.Error{Cause: reach.CauseRefused}
		d.Registered(view(n), n, false)
		synctest.Wait()
		if got := d.Of(&n); len(net.dialed) != 2 || got.GetAnswer() != dialback.No || got.GetAtUnixMs() <= first.GetAtUnixMs() {
			t.Errorf("dialled %v: %v after %v", net.dialed, got, first)
		}
		b := learner("sl-b", id)
		d.Registered(view(b), b, false) // sl-a is forgotten
		if d.Of(&n) != nil {
			t.Error("a node that is gone is remembered")
		}
	})
}

// TestRegistrationsCannotMakeAnSNScan: dials are few at a time, and few of a SPIFFE ID, whatever addresses its nodes give.
func TestRegistrationsCannotMakeAnSNScan(t *testing.T) {
	id := newID(t)
	net := &network{who: id}
	bubble(t, net, func(t *testing.T, d *dialback.Desk) {
		net.hold = make(chan struct{}) // of this bubble
		var all []state.Node
		for i := range 1000 {
			n := learner(fmt.Sprint("sl-", i), newID(t))
			n.SPIFFEID = "spiffe://x/swarm/sl"
			all = append(all, n)
		}
		v := view(all...)
		for _, n := range all {
			d.Registered(v, n, false) // which does not wait for dials
		}
		other := learner("sl-other", id)
		d.Registered(view(append(all, other)...), other, false)
		synctest.Wait()
		close(net.hold)
		synctest.Wait()
		if len(net.dialed) != 33 || net.most != 4 || d.Of(&other) == nil {
			t.Errorf("%d dials, %d at a time, another's: %v; want 33 and 4", len(net.dialed), net.most, d.Of(&other))
		}
		if d.Of(&all[999]) != nil {
			t.Error("a node that was not dialled has an answer")
		}
		time.Sleep(10 * time.Second)
		d.Of(&all[999]) // a heartbeat
		synctest.Wait()
		if d.Of(&all[999]).GetAnswer() != dialback.OtherKey {
			t.Error("a node is never dialled that was one of too many")
		}
	})
}

// TestFullQueue: what the queue does not hold is not checked.
func TestFullQueue(t *testing.T) {
	id := newID(t)
	net := &network{who: id}
	synctest.Test(t, func(t *testing.T) {
		d := dialback.New("sn-1", nil)
		var all []state.Node
		for i := range 1000 {
			all = append(all, learner(fmt.Sprint("sl-", i), newID(t)))
		}
		v := view(all...)
		for _, n := range all {
			d.Registered(v, n, false)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx, net) }()
		synctest.Wait()
		cancel()
		<-done
	})
	if len(net.dialed) != 256 {
		t.Errorf("%d dials, want 256", len(net.dialed))
	}
}

// at is the node at another address.
func at(n state.Node, host string) state.Node {
	n.Host = host
	return n
}

// TestNodesCannotHaveAnSNScan: of the addresses that one node key registers one after the other few are dialled; once its time has come the last one is,
// as its heartbeats ask for the answer.
func TestNodesCannotHaveAnSNScan(t *testing.T) {
	id := newID(t)
	net := &network{who: id}
	bubble(t, net, func(t *testing.T, d *dialback.Desk) {
		n := learner("sl-a", id)
		for i := range 24 * 60 {
			n = at(n, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
			d.Registered(view(n), n, false)
			synctest.Wait()
			d.Of(&n)
			d.Registered(view(n), n, false) // the same once more is no way around; where it was dialled it is again
			synctest.Wait()
			time.Sleep(time.Minute)
		}
		dials := map[string]int{}
		for _, at := range net.dialed {
			dials[at]++
		}
		if got := len(dials); got < 96 || got > 100 {
			t.Errorf("%d addresses of 1440 in a day were dialled, want about 100", got)
		}
		for at, n := range dials {
			if n > 2 {
				t.Errorf("%s was dialled %d times for two registrations", at, n)
			}
		}
		for i := range 2 { // one may be due
			n = at(n, fmt.Sprint("10.9.9.", i))
			d.Registered(view(n), n, false)
			synctest.Wait()
		}
		got := d.Of(&n)
		if got.GetAnswer() != dialback.NotTried || !strings.Contains(got.GetCause(), "too often") || got.GetAtUnixMs() == 0 || d.Warning(&n) != "" {
			t.Errorf("told %v, warned %q", got, d.Warning(&n))
		}
		if again := d.Of(&n); again.GetAtUnixMs() != got.GetAtUnixMs() {
			t.Error("the same is told as something new")
		}
		time.Sleep(15 * time.Minute)
		d.Of(&n) // a heartbeat
		synctest.Wait()
		if later := d.Of(&n); later.GetAnswer() != dialback.Yes || later.GetAtUnixMs() <= got.GetAtUnixMs() {
			t.Errorf("later told %v", later)
		}
	})
}

// TestANameThatLeadsElsewhereEachTime: what a name resolves to is counted, not the name.
func TestANameThatLeadsElsewhereEachTime(t *testing.T) {
	looked := 0
	net := &network{who: newID(t), resolve: func() string {
		looked++
		return fmt.Sprintf("10.0.%d.%d:30305", looked/250, looked%250)
	}}
	bubble(t, net, func(t *testing.T, d *dialback.Desk) {
		n := learner("sl-a", newID(t))
		for range 50 {
			d.Registered(view(n), n, false)
			synctest.Wait()
			time.Sleep(time.Minute)
		}
		if got := len(net.dialed); got != 7 || looked != 50 {
			t.Errorf("%d of %d addresses in 50 minutes were dialled, want 4 and one in 15 minutes", got, looked)
		}
		net.resolve = func() string { return "10.9.9.9:30305" }
		d.Registered(view(n), n, false)
		synctest.Wait()
		if got := d.Of(&n); got.GetAnswer() != dialback.NotTried {
			t.Errorf("told %v", got)
		}
		for range 20 { // heartbeats, for no more than the time that one takes
			time.Sleep(time.Minute)
			d.Of(&n)
			synctest.Wait()
		}
		if got := d.Of(&n); got.GetAnswer() != dialback.OtherKey {
			t.Errorf("later told %v", got)
		}
	})
}

// TestHonestNodesAreAnswered: one that starts again at its address is dialled each time, one that moves now and then at once.
func TestHonestNodesAreAnswered(t *testing.T) {
	id := newID(t)
	net := &network{who: id}
	bubble(t, net, func(t *testing.T, d *dialback.Desk) {
		n := learner("sl-a", id)
		dialed := 0
		register := func(what string) {
			t.Helper()
			d.Registered(view(n), n, false)
			synctest.Wait()
			if dialed++; len(net.dialed) != dialed || d.Of(&n).GetAnswer() != dialback.Yes {
				t.Fatalf("%s: dialled %v, told %v", what, net.dialed, d.Of(&n))
			}
		}
		for range 20 {
			register("a restart")
		}
		for i := range 3 {
			n = at(n, fmt.Sprint("10.0.0.", i+1))
			register("a move")
			register("a restart after a move")
		}
		for i := range 10 {
			time.Sleep(time.Hour)
			n = at(n, fmt.Sprint("10.0.1.", i+1))
			register("a move an hour later")
		}
	})
}

// TestKeysOfASharedEntryMoveTogether: who makes many node keys under one SPIFFE ID has no more addresses dialled by moving them all.
func TestKeysOfASharedEntryMoveTogether(t *testing.T) {
	net := &network{who: newID(t)}
	bubble(t, net, func(t *testing.T, d *dialback.Desk) {
		var all []state.Node
		for i := range 200 {
			n := learner(fmt.Sprint("sl-", i), newID(t))
			n.SPIFFEID = "spiffe://x/swarm/sl"
			all = append(all, n)
		}
		v := view(all...)
		for i := range 3 * 200 {
			n := at(all[i%200], fmt.Sprintf("10.0.%d.%d", i/200, i%200))
			d.Registered(v, n, false)
			synctest.Wait()
			time.Sleep(10 * time.Second)
		}
		// Each key's first address, then 32 moves and one a minute, for 400 of 600 registrations that come every ten seconds.
		if got := len(net.dialed); got < 200+32+60 || got > 200+32+70 {
			t.Errorf("%d addresses were dialled", got)
		}
	})
}

// TestBarredAddresses: what is no address of another host is not dialled, but a loopback address for who is here.
func TestBarredAddresses(t *testing.T) {
	id := newID(t)
	for _, x := range []struct {
		host  string
		here  bool
		cause string
	}{
		{"127.0.0.1", false, "a loopback address"},
		{"127.0.0.1", true, ""},
		{"::1", true, ""},
		{"::ffff:127.0.0.1", false, "a loopback address"},
		{"169.254.169.254", true, "a link-local address"},
		{"0.0.0.0", true, "no address of a host"},
		{"224.0.0.5", false, "an address of many hosts"},
		{"10.0.0.1", false, ""},
	} {
		net := &network{who: id}
		bubble(t, net, func(t *testing.T, d *dialback.Desk) {
			n := at(learner("sl-a", id), x.host)
			d.Registered(view(n), n, x.here)
			synctest.Wait()
			got, want := d.Of(&n), dialback.Yes
			if x.cause != "" {
				want = dialback.NotTried
			}
			if got.GetAnswer() != want || got.GetCause() != x.cause || (len(net.dialed) == 0) != (x.cause != "") {
				t.Errorf("%s, here: %t: told %v, dialled %v", x.host, x.here, got, net.dialed)
			}
			if w := d.Warning(&n); (w != "") != (x.cause != "") || !strings.Contains(w, x.cause) {
				t.Errorf("%s: warned %q", x.host, w)
			}
		})
	}
}
