package p2p_test

import (
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

// clock is one that stands until it is moved.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time       { return time.Unix(0, c.at.Load()) }
func (c *clock) move(d time.Duration) { c.at.Add(int64(d)) }

// ask asks the peer for a connection and returns whether it made one; any other answer than that there were too many fails the test.
func ask(t *testing.T, h, peer *p2p.Host) bool {
	t.Helper()
	err := p2p.AskReversed(t.Context(), h, peer.ID())
	if refused, ok := errors.AsType[*p2p.RefusedError](err); err != nil && (!ok || !strings.Contains(refused.Reason, "too many connections were asked for")) {
		t.Fatal(err)
	}
	return err == nil
}

// link has the host dial the peer, of which it has no connection yet.
func link(t *testing.T, h, peer *p2p.Host) {
	t.Helper()
	if err := h.Link(t.Context(), p2ptest.AddrOf(t, peer), anybody); err != nil {
		t.Fatal(err)
	}
	p2p.AwaitConnections(t, peer, h.ID(), 1)
}

// TestPeersCannotHaveAHostDialWithoutEnd: who asks for connections again and again gets some, then one a second, whichever connection it asks over;
// and its streams go over what stands.
func TestPeersCannotHaveAHostDialWithoutEnd(t *testing.T) {
	sw := p2ptest.New(t)
	flooder, other, behind := sw.Host(identity.RoleSL, swarmA), sw.Host(identity.RoleSL, swarmA), sw.Host(identity.RoleSL, swarmA)
	var at clock
	p2p.ReverseClock(behind, at.now)
	for _, h := range []*p2p.Host{flooder, other, behind} {
		serveEcho(h, anyRole)
	}
	link(t, behind, flooder)
	link(t, behind, other)
	made := 0
	for range 100 {
		if ask(t, flooder, behind) {
			made++
		}
	}
	if made != 32 {
		t.Errorf("%d of 100 connections were made, want 32", made)
	}
	// A new parent begins no new count.
	flooder.Disconnect(behind.ID())
	p2p.AwaitConnections(t, behind, flooder.ID(), 0)
	p2p.AwaitConnections(t, flooder, behind.ID(), 0)
	link(t, behind, flooder)
	if ask(t, flooder, behind) {
		t.Error("after it has hung up it gets more")
	}
	unreachable := p2ptest.AddrOf(t, behind)
	unreachable.Port = 1 // nothing listens
	s, err := flooder.DialDedicated(t.Context(), unreachable, echo, anybody)
	if err != nil {
		t.Fatalf("who was refused has no stream: %v", err)
	}
	if !p2p.Shared(s) {
		t.Error("who was refused got another connection")
	}
	roundTrip(t, s, "over the parent")
	if !ask(t, other, behind) {
		t.Error("another peer pays for it")
	}
	at.move(time.Second)
	if !ask(t, flooder, behind) || ask(t, flooder, behind) {
		t.Error("after a second it does not get one, or gets more")
	}
	p2p.NoneAsked(t, behind)
	p2p.NoneAsked(t, flooder)
}

// TestHonestBurstOfReversedStreams: eight peers that open some streams each at once to one that they can't dial, and again in the rounds after it, get
// connections for all of them.
func TestHonestBurstOfReversedStreams(t *testing.T) {
	const peers, streams, rounds = 8, 2, 4
	sw := p2ptest.New(t)
	behind := sw.Host(identity.RoleSL, swarmA)
	var at clock // it stands: all rounds are one burst
	p2p.ReverseClock(behind, at.now)
	serveEcho(behind, anyRole)
	unreachable := p2ptest.AddrOf(t, behind)
	unreachable.Port = 1
	var all []*p2p.Host
	for range peers {
		h := sw.Host(identity.RoleSL, swarmA)
		link(t, behind, h)
		all = append(all, h)
	}
	for range rounds {
		var opened sync.WaitGroup
		for _, h := range all {
			for range streams {
				opened.Go(func() {
					s, err := h.DialDedicated(t.Context(), unreachable, echo, anybody)
					if err != nil {
						t.Error(err)
						return
					}
					if p2p.Shared(s) {
						t.Error("a stream shares a connection")
					}
					_, sent := io.WriteString(s, "merge")
					err = errors.Join(sent, s.CloseWrite())
					if got, read := io.ReadAll(s); errors.Join(err, read) != nil || string(got) != "merge" {
						t.Error(err, read, got)
					}
					_ = s.Close()
				})
			}
		}
		opened.Wait()
	}
}
