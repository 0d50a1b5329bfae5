package p2p_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/reach"
)

// Of two that dial each other, of whom only one can be dialled, both come to their streams.
func TestWhoCantDialTakesWhatThePeerDials(t *testing.T) {
	sw := p2ptest.New(t)
	cfg := sw.Config(identity.RoleSL, swarmA)
	cfg.TheirTurn = time.Minute // but for the peer's connection the dial would take as long as it may
	behind, open := p2ptest.Start(t, cfg), sw.Host(identity.RoleSL, swarmA)
	serveEcho(behind, anyRole)
	serveEcho(open, anyRole)
	closed := p2ptest.AddrOf(t, open)
	closed.Port = 1 // nothing listens
	got := make(chan error, 1)
	go func() {
		s, err := behind.Dial(t.Context(), closed, echo)
		if err == nil {
			err = s.Close()
		}
		got <- err
	}()
	if err := open.Link(t.Context(), p2ptest.AddrOf(t, behind), anybody); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("dial of who can't: %v", err)
	}
	r := behind.Reach(closed, anybody)
	if !r.Linked {
		t.Error("no connection, says who can't dial")
	}
	if f := r.Failed.Err; f != nil && (f.Cause != reach.CauseRefused || f.HostPort != closed.HostPort()) { // nil: the peer's came first
		t.Errorf("way of who can't dial: %+v", f)
	}
	if r := open.Reach(p2ptest.AddrOf(t, behind), anybody); !r.Linked || r.Failed.Err != nil {
		t.Errorf("way of who can: %+v", r)
	}
	none := func(p2p.Peer) error { return errors.New("does not fit") }
	if r := behind.Reach(closed, none); r.Linked {
		t.Error("a connection of a peer that does not fit counts")
	}
}

func TestDialErrorsNameTheAddress(t *testing.T) {
	sw := p2ptest.New(t)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	to := p2ptest.AddrOf(t, sn)
	to.Port = 1
	for _, dial := range []func() error{
		func() error { _, err := sl.Dial(t.Context(), to, echo); return err },
		func() error { _, err := sl.DialDedicated(t.Context(), to, echo, anybody); return err },
		func() error { return sl.Link(t.Context(), to, anybody) },
	} {
		err := dial()
		e, ok := errors.AsType[*reach.Error](err)
		if !ok {
			t.Fatalf("dial of a closed port: %v", err)
		}
		if want := net.JoinHostPort(to.Host, strconv.Itoa(to.Port)); e.HostPort != want || e.Cause != reach.CauseRefused || e.Brief() != want+" (TCP) refuses connections" {
			t.Errorf("dial of a closed port: %+v, brief %q", e, e.Brief())
		}
	}
	if f := sl.Reach(to, anybody).Failed.Err; f == nil || f.Cause != reach.CauseRefused {
		t.Errorf("way to a closed port: %v", f)
	}
	to.Host, to.Port = "no-such-host.invalid", 30305
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := sl.Dial(ctx, to, echo); err == nil {
		t.Error("a name that has no address answers")
	} else if e, ok := errors.AsType[*reach.Error](err); !ok || !strings.HasPrefix(e.Brief(), "no-such-host.invalid:30305") {
		t.Errorf("dial of a name without an address: %v", err)
	}
}

// TestConnectionsOverWhichNothingCanGoAreClosed: a peer that shows no swarm is not linked, and keeps none of the connections that were tried.
func TestConnectionsOverWhichNothingCanGoAreClosed(t *testing.T) {
	sw := p2ptest.New(t)
	h, lost := sw.Host(identity.RoleSL, swarmA), sw.Host(identity.RoleSL, "")
	serveEcho(lost, p2p.Policy{Roles: []identity.Role{identity.RoleSL}, AllowNoSwarm: true})
	to := p2ptest.AddrOf(t, lost)
	if err := h.Link(t.Context(), to, anybody); err == nil || !strings.Contains(err.Error(), "no swarm that this node belongs to") {
		t.Errorf("link with a peer of no swarm: %v", err)
	}
	p2p.AwaitConnections(t, h, lost.ID(), 0)
	s, err := h.DialDedicated(t.Context(), to, echo, anybody)
	if err != nil {
		t.Fatal(err)
	}
	p2p.AwaitConnections(t, h, lost.ID(), 1) // that of the stream, and not the one that was to be its parent
	roundTrip(t, s, "who are you")
}
