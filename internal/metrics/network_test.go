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

	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/p2p"
)

// network connects each dial with what handles the protocol; who dials is said by the address.
type network struct {
	p2p.Network
	handlers map[string]func(context.Context, p2p.Conn)
}

func (n *network) Handle(protocol string, _ p2p.Policy, fn func(context.Context, p2p.Conn)) {
	n.handlers[protocol] = fn
}

func (n *network) Dial(_ context.Context, to p2p.Addr, protocol string, _ bool, _ func(p2p.Peer) error) (p2p.Conn, error) {
	if n.handlers[protocol] == nil {
		return nil, errors.New("refused")
	}
	here, there := net.Pipe()
	go n.handlers[protocol](context.Background(), conn{there, p2p.Peer{ID: to.PeerID}})
	return conn{here, p2p.Peer{ID: to.PeerID}}, nil
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

// TestTraffic: bytes by peer and direction, streams by protocol, with a bound on peers.
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
	for i := range 300 {
		talk(fmt.Sprint("p", i))
	}
	body = read(t, at)
	if k := strings.Count(body, "\nswarmd_peer_bytes_total{"); k != 2*129 {
		t.Errorf("%d series of bytes, want those of 128 peers and of the others", k)
	}
	has(t, body, fmt.Sprintf(`swarmd_peer_bytes_total{direction="sent",peer="other"} %d`, (301-128)*10))
}
