package identity_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/identity"
)

// gate is a gate on loopback whose connections come through accepted.
func gate(t *testing.T, cfg identity.GateConfig) (addr string, accepted <-chan *identity.GatedConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l.Addr().String(), serveGate(t, l, cfg)
}

func serveGate(t *testing.T, l net.Listener, cfg identity.GateConfig) <-chan *identity.GatedConn {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	g := identity.NewGate(l, cfg)
	accepted := make(chan *identity.GatedConn, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := g.Accept()
			if err != nil {
				return
			}
			accepted <- c.(*identity.GatedConn)
		}
	}()
	t.Cleanup(func() {
		_ = g.Close()
		<-done
		for len(accepted) > 0 {
			_ = (<-accepted).Close()
		}
	})
	return accepted
}

// dialFrom connects from one of loopback's addresses and says what it is given.
func dialFrom(t *testing.T, from, addr, says string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	say(t, c, says)
	return c
}

func say(t *testing.T, c net.Conn, what string) {
	t.Helper()
	if _, err := io.WriteString(c, what); err != nil {
		t.Fatal(err)
	}
}

// isDropped waits until the other side has closed the connection.
func isDropped(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection of %s was not dropped: %v", c.LocalAddr(), err)
	}
}

func isFrom(t *testing.T, want net.Conn, got *identity.GatedConn) {
	t.Helper()
	if got.RemoteAddr().String() != want.LocalAddr().String() {
		t.Errorf("accepted %s, want %s", got.RemoteAddr(), want.LocalAddr())
	}
}

func TestGateDropsTheOldestSilentConnectionOfTheBusiestAddress(t *testing.T) {
	addr, accepted := gate(t, identity.GateConfig{Handshakes: 3})
	lonely := dialFrom(t, "127.0.0.3", addr, "")
	first := dialFrom(t, "127.0.0.2", addr, "")
	second := dialFrom(t, "127.0.0.2", addr, "")
	newcomer := dialFrom(t, "127.0.0.4", addr, "")
	isDropped(t, first)
	for _, c := range []net.Conn{lonely, second, newcomer} {
		say(t, c, "x")
		isFrom(t, c, <-accepted)
	}
}

func TestGateLetsInWhoSpeaksFromAnAddressThatFloods(t *testing.T) {
	addr, accepted := gate(t, identity.GateConfig{Handshakes: 2})
	var last net.Conn
	for range 50 {
		last = dialFrom(t, "127.0.0.2", addr, "")
	}
	honest := dialFrom(t, "127.0.0.2", addr, "x")
	isFrom(t, honest, <-accepted)
	say(t, last, "x")
	isFrom(t, last, <-accepted)
}

func TestGateDropsWhoIsSilentBesideTooManyOfItsAddress(t *testing.T) {
	addr, _ := gate(t, identity.GateConfig{Handshakes: 1 << 20, Silent: 1})
	first := dialFrom(t, "127.0.0.2", addr, "")
	dropped := make(chan struct{})
	go func() {
		defer close(dropped)
		_, _ = first.Read(make([]byte, 1))
	}()
	for n := 0; ; n++ {
		select {
		case <-dropped:
			if n < 2 {
				t.Error("the first was dropped at once, though nothing was crowded")
			}
			return
		default:
			dialFrom(t, "127.0.0.2", addr, "")
		}
	}
}

func TestGateFreesThePlaceOfAProvenPeer(t *testing.T) {
	addr, accepted := gate(t, identity.GateConfig{Handshakes: 1})
	var proven []net.Conn
	for range 3 {
		peer := dialFrom(t, "127.0.0.1", addr, "x")
		c := <-accepted
		c.Proven()
		c.Proven()
		t.Cleanup(func() { _ = c.Close() })
		say(t, c, "y")
		proven = append(proven, peer)
	}
	for _, peer := range proven {
		_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.ReadFull(peer, make([]byte, 1)); err != nil {
			t.Errorf("a proven connection was dropped: %v", err)
		}
	}
}

func TestGateCloseEndsAcceptAndWhatWaits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := identity.NewGate(l, identity.GateConfig{Handshakes: 1, Log: slog.New(slog.DiscardHandler)})
	taken := dialFrom(t, "127.0.0.1", g.Addr().String(), "x")
	c, err := g.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	waits := dialFrom(t, "127.0.0.1", g.Addr().String(), "x")
	silent := dialFrom(t, "127.0.0.1", g.Addr().String(), "")
	done := make(chan error, 1)
	go func() {
		_, err := g.Accept()
		done <- err
	}()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("Accept returned a connection of a closed gate")
	}
	isDropped(t, waits)
	isDropped(t, silent)
	say(t, c, "y")
	if _, err := io.ReadFull(taken, make([]byte, 1)); err != nil {
		t.Errorf("a connection that was accepted was closed: %v", err)
	}
}

// pipes is a listener in memory. What is no socket counts as having spoken.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error { close(p); return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

type pipeEnd struct {
	net.Conn
	from net.Addr
}

func (p pipeEnd) RemoteAddr() net.Addr { return p.from }

// dial returns the dialler's end.
func (p pipes) dial(from string) net.Conn {
	ours, theirs := net.Pipe()
	p <- pipeEnd{theirs, &net.TCPAddr{IP: net.ParseIP(from)}}
	synctest.Wait()
	return ours
}

// closed reports whether the gate has closed the other end.
func closed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

func TestGateSharesHandshakesAmongAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		accepted := serveGate(t, l, identity.GateConfig{Handshakes: 4})
		var busy []net.Conn
		for range 5 {
			busy = append(busy, l.dial("192.0.2.1"))
		}
		if len(accepted) != 4 {
			t.Fatalf("%d handshakes, want 4", len(accepted))
		}
		for i, want := range []int{5, 6} {
			l.dial("192.0.2.2")
			if len(accepted) != want || !closed(busy[i]) {
				t.Errorf("newcomer %d of another address: %d were let in, want %d, at the busy one's cost: %t", i+1, len(accepted), want, closed(busy[i]))
			}
		}
		l.dial("192.0.2.2") // now both have two: taking turns at once would let neither finish
		if len(accepted) != 6 {
			t.Errorf("an address with as many handshakes was preferred")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(accepted) != 8 {
			t.Errorf("%d were let in, want 8: who waits gets its turn after a second", len(accepted))
		}
	})
}

// TestGateCountsSitesToo: who has a network of 48 bits has 65,536 of 64, and takes a place from each.
func TestGateCountsSitesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		accepted := serveGate(t, l, identity.GateConfig{Handshakes: 20})
		var honest []net.Conn
		for i := range 4 {
			honest = append(honest, l.dial(fmt.Sprintf("2001:db8:%x::1", i+1)))
		}
		for i := range 90 { // with those who wait
			time.Sleep(50 * time.Millisecond)
			l.dial(fmt.Sprintf("2001:db8:aaaa:%x::1", i))
		}
		time.Sleep(time.Minute)
		late := len(accepted)
		honest = append(honest, l.dial("2001:db8:9::1"), l.dial("192.0.2.1"))
		if len(accepted) != late+2 {
			t.Errorf("of two newcomers of other sites %d were let in", len(accepted)-late)
		}
		for _, c := range honest {
			if closed(c) {
				t.Error("an honest connection gave way to a site that floods")
			}
		}
	})
}

func TestGateBoundsWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		accepted := serveGate(t, l, identity.GateConfig{Handshakes: 1})
		l.dial("192.0.2.1")
		var waiting []net.Conn
		for range 4 {
			waiting = append(waiting, l.dial("192.0.2.1"))
		}
		if c := l.dial("192.0.2.1"); !closed(c) {
			t.Error("a fifth may wait")
		}
		other := l.dial("192.0.2.2")
		if closed(other) || !closed(waiting[3]) {
			t.Error("another address has no place in the queue")
		}
		for range 4 {
			(<-accepted).Proven()
		}
		if c := <-accepted; c.RemoteAddr().String() != "192.0.2.2:0" {
			t.Errorf("served %s last, who came last", c.RemoteAddr())
		}
	})
}

func TestSourceOf(t *testing.T) {
	for _, tt := range []struct{ addr, want string }{
		{"192.0.2.7", "192.0.2.7/32"},
		{"::ffff:192.0.2.7", "192.0.2.7/32"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
	} {
		if got := identity.SourceOf(&net.TCPAddr{IP: net.ParseIP(tt.addr), Port: 1}); got.String() != tt.want {
			t.Errorf("%s: %s, want %s", tt.addr, got, tt.want)
		}
	}
	if got := identity.SourceOf(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}); got.String() != "fe80::/64" {
		t.Errorf("with a zone: %s", got)
	}
	if got := identity.SourceOf(&net.UnixAddr{}); got.IsValid() {
		t.Errorf("no address of a host: %s", got)
	}
}
