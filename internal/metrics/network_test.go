package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/p2p"
)

// network connects each dial with what handles the protocol; who dials is said by the address.
type network struct {
	p2p.Network
	handlers map[string]func(context.Context, p2p.Conn)
}

// who has the identity that an address names; others have none.
func who(to p2p.Addr) p2p.Peer {
	id, _ := identity.ParseIDString(string(to.PeerID))
	return p2p.Peer{ID: to.PeerID, Identity: id}
}

func (n *network) Handle(protocol string, _ p2p.Policy, fn func(context.Context, p2p.Conn)) {
	n.handlers[protocol] = fn
}

func (n *network) Dial(_ context.Context, to p2p.Addr, protocol string, _ bool, _ func(p2p.Peer) error) (p2p.Conn, error) {
	if n.handlers[protocol] == nil {
		return nil, errors.New("refused")
	}
	here, there := net.Pipe()
	go n.handlers[protocol](context.Background(), conn{there, who(to)})
	return conn{here, who(to)}, nil
}

type conn struct {
	net.Conn
	peer p2p.Peer
}

func (c conn) CloseWrite() error { return nil }
func (c conn) Reset() error      { return c.Close() }
func (c conn) Peer() p2p.Peer    { return c.peer }
func (c conn) Disconnect() error { return c.Close() }

// itself is a network on which a node talks to itself: who sends 7 bytes gets 3.
func itself(t *testing.T, s *metrics.Server) p2p.Network {
	t.Helper()
	inner := &network{handlers: map[string]func(context.Context, p2p.Conn){}}
	n, err := s.OpenHost(func(p2p.Config) (p2p.Network, error) { return inner, nil })(p2p.Config{})
	if err != nil {
		t.Fatal(err)
	}
	n.Handle("/swarm/x/1", p2p.Policy{}, func(_ context.Context, c p2p.Conn) {
		defer c.Close()
		b := make([]byte, 7)
		k, _ := io.ReadFull(c, b)
		_, _ = c.Write(b[:k-4])
	})
	return n
}

func talkToItself(t *testing.T, s *metrics.Server) {
	t.Helper()
	talkTo(t, itself(t, s), "a")
}

func talkTo(t *testing.T, n p2p.Network, id string) {
	t.Helper()
	c, err := n.Dial(t.Context(), p2p.Addr{PeerID: peer.ID(id)}, "/swarm/x/1", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, ok := c.(interface {
		WriteFrame(header, payload []byte) (int, error)
		Queues() bool
	})
	if !ok || w.Queues() {
		t.Fatal("a stream lost what it could")
	}
	if k, err := w.WriteFrame([]byte("abc"), []byte("defg")); err != nil || k != 7 {
		t.Fatal(k, err)
	}
	if got, err := io.ReadAll(c); err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	_ = c.Reset() // that it ended counts once
}

// TestTraffic: bytes by peer and direction, streams by protocol.
func TestTraffic(t *testing.T) {
	s, at := open(t)
	n := itself(t, s)
	talk := func(id string) {
		t.Helper()
		talkTo(t, n, id)
	}
	talk("a")
	talk("a")
	if _, err := n.Dial(t.Context(), p2p.Addr{PeerID: "a"}, "/swarm/y/1", false, nil); err == nil {
		t.Fatal("it was opened")
	}
	label := peer.ID("a").String()
	body := read(t, at)
	// Both ends are this node's: what one sends the other receives.
	has(t, body, fmt.Sprintf(`swarmd_peer_bytes_total{direction="sent",peer=%q} 20`, label), fmt.Sprintf(`swarmd_peer_bytes_total{direction="received",peer=%q} 20`, label),
		`swarmd_streams_opened_total{direction="out",protocol="/swarm/x/1"} 2`, `swarmd_streams_opened_total{direction="in",protocol="/swarm/x/1"} 2`,
		`swarmd_streams{direction="out",protocol="/swarm/x/1"} 0`, `swarmd_stream_dial_failures_total{protocol="/swarm/y/1"} 1`, `swarmd_stream_dial_failures_total{protocol="/swarm/x/1"} 0`)
	promtool(t, body)
}

// TestPeersHaveABound: those whom nobody knows take no room from nodes, and make room for each other. All operators are one.
func TestPeersHaveABound(t *testing.T) {
	s, at := open(t)
	n := itself(t, s)
	for i := range 300 {
		talkTo(t, n, fmt.Sprint("p", i))
		talkTo(t, n, fmt.Sprintf("spiffe://a.example/swarm/swci/op-%d", i))
	}
	series := func() int { return strings.Count(read(t, at), "\nswarmd_peer_bytes_total{") / 2 }
	if k := series(); k != 32+1 {
		t.Errorf("%d peers, want 32 without a name and the operators", k)
	}
	has(t, read(t, at), fmt.Sprintf(`swarmd_peer_bytes_total{direction="sent",peer="operators"} %d`, 300*10))
	for i := range 200 {
		talkTo(t, n, fmt.Sprintf("spiffe://a.example/swarm/sl/sl-%03d", i))
	}
	if k := series(); k != 128+1 {
		t.Errorf("%d peers, want 128 and the operators", k)
	}
	has(t, read(t, at), `swarmd_peer_bytes_total{direction="sent",peer="sl-199"} 10`)
	var held []p2p.Conn
	for i := range 200 { // streams that stay open
		c, err := n.Dial(t.Context(), p2p.Addr{PeerID: peer.ID(fmt.Sprintf("spiffe://a.example/swarm/sl/held-%03d", i))}, "/swarm/x/1", false, nil)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	for !strings.Contains(read(t, at), `swarmd_streams{direction="in",protocol="/swarm/x/1"} 200`) {
		t.Log("both ends are not counted yet")
	}
	for _, c := range held {
		if _, err := c.Write([]byte("abcdefg")); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); err != nil || len(got) != 3 {
			t.Fatal(got, err)
		}
		c.Close()
	}
	has(t, read(t, at), fmt.Sprintf(`swarmd_peer_bytes_total{direction="sent",peer="other"} %d`, (200-128)*10))
}
