package identity_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
)

func gate(t *testing.T, limit int) *identity.Gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := identity.NewGate(l, limit, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func dialGate(t *testing.T, g *identity.Gate) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func acceptGate(t *testing.T, g *identity.Gate) *identity.GatedConn {
	t.Helper()
	c, err := g.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*identity.GatedConn)
}

func TestGateDropsTheOldestSilentConnectionForANewcomer(t *testing.T) {
	g := gate(t, 2)
	silent := dialGate(t, g)
	acceptGate(t, g)
	dialGate(t, g)
	acceptGate(t, g)
	dialGate(t, g)
	start := time.Now()
	acceptGate(t, g) // would block for ever without the bound's relief
	if waited := time.Since(start); waited < 500*time.Millisecond {
		t.Errorf("the third connection was let in after %s: the bound of two does not hold", waited)
	}
	_ = silent.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := silent.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest connection was not dropped: %v", err)
	}
}

func TestGateFreesThePlaceOfAProvenPeer(t *testing.T) {
	g := gate(t, 1)
	for range 3 {
		peer := dialGate(t, g)
		c := acceptGate(t, g)
		c.Proven()
		c.Proven()
		next := dialGate(t, g)
		start := time.Now()
		if err := acceptGate(t, g).Close(); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited > 900*time.Millisecond {
			t.Errorf("the next connection waited %s although the place was free", waited)
		}
		_ = next.Close()
		go func() { _, _ = c.Write([]byte{1}) }()
		_ = peer.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.ReadFull(peer, make([]byte, 1)); err != nil {
			t.Errorf("a proven connection was dropped: %v", err)
		}
	}
}

func TestGateCloseEndsAWaitingAccept(t *testing.T) {
	g := gate(t, 1)
	dialGate(t, g)
	acceptGate(t, g)
	dialGate(t, g)
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
}
