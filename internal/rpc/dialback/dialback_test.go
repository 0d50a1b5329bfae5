package dialback_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

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
	who  peer.ID
	err  error
	hold chan struct{} // dials wait until it is closed; nil: none does
}

func (n *network) Contact(ctx context.Context, hostport string, role identity.Role) (p2p.Peer, error) {
	if _, limited := ctx.Deadline(); !limited || role != identity.RoleSL {
		return p2p.Peer{}, errors.New("a dial without bounds")
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
func bubble(t *testing.T, net *network, test func(t *testing.T, d *dialback.Desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := dialback.New("sn-1", nil)
		done := make(chan error)
		go func() { done <- d.Run(ctx, net) }()
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
				d.Registered(view(n), n)
				synctest.Wait()
				got := d.Of(&n)
				want := &swarmv1.DialBack{Answer: x.answer, Cause: x.cause, Address: "sl-a.example:30305", Sn: "sn-1", AtUnixMs: got.GetAtUnixMs()}
				if got.GetAtUnixMs() == 0 || got.String() != want.String() {
					t.Errorf("got %v, want %v", got, want)
				}
				if w := d.Warning(&n); (w != "") != (x.answer != dialback.Yes) {
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
		d.Registered(view(n), sn)
		d.Registered(view(n), portless)
		d.Registered(view(n), n)
		synctest.Wait()
		first := d.Of(&n)
		moved := n
		moved.Host = "elsewhere.example"
		if len(net.dialed) != 1 || first.GetAnswer() != dialback.Yes || d.Of(&moved) != nil {
			t.Errorf("dialled %v; %v; of another address %v", net.dialed, first, d.Of(&moved))
		}
		net.err = &reach.Error{Cause: reach.CauseRefused}
		d.Registered(view(n), n)
		synctest.Wait()
		if got := d.Of(&n); len(net.dialed) != 2 || got.GetAnswer() != dialback.No || got.GetAtUnixMs() <= first.GetAtUnixMs() {
			t.Errorf("dialled %v: %v after %v", net.dialed, got, first)
		}
		b := learner("sl-b", id)
		d.Registered(view(b), b) // sl-a is forgotten
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
			n := learner(fmt.Sprint("sl-", i), id)
			n.SPIFFEID = "spiffe://x/swarm/sl"
			all = append(all, n)
		}
		v := view(all...)
		for _, n := range all {
			d.Registered(v, n) // which does not wait for dials
		}
		other := learner("sl-other", id)
		d.Registered(view(append(all, other)...), other)
		synctest.Wait()
		close(net.hold)
		synctest.Wait()
		if len(net.dialed) != 33 || net.most != 4 || d.Of(&other) == nil {
			t.Errorf("%d dials, %d at a time, another's: %v; want 33 and 4", len(net.dialed), net.most, d.Of(&other))
		}
		if d.Of(&all[999]) != nil {
			t.Error("a node that was not dialled has an answer")
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
			all = append(all, learner(fmt.Sprint("sl-", i), id))
		}
		v := view(all...)
		for _, n := range all {
			d.Registered(v, n)
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
