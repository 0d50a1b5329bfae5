package forward_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/forward"
	"github.com/swarmd/swarmd/internal/p2p"
)

// pipe is a stream in memory.
type pipe struct {
	net.Conn

	peer p2p.Peer
}

func (p pipe) CloseWrite() error { return p.Close() }
func (p pipe) Reset() error      { return p.Close() }
func (p pipe) Peer() p2p.Peer    { return p.peer }
func (p pipe) Disconnect() error { return p.Close() }

// network hands the handler of its protocol to the test.
type network struct {
	p2p.Network

	serve func(ctx context.Context, s p2p.Conn)
}

func (n *network) Handle(_ string, _ p2p.Policy, fn func(ctx context.Context, s p2p.Conn)) {
	n.serve = fn
}

// TestRightsAreWithdrawn: a connection ends soon after the swarm's rights keep its operator from it. SNs that can't say so end nothing.
func TestRightsAreWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, err := identity.ParseIDString("spiffe://h.org/swarm/swci/ann")
		if err != nil {
			t.Fatal(err)
		}
		var withdrawn, silent atomic.Bool
		member, program := net.Pipe()
		defer program.Close()
		n := &network{}
		forward.ServeMembers(n, forward.Config{
			Node: "h-0", Log: slog.New(slog.DiscardHandler), Allow: func(string) error { return nil },
			Rights: func(context.Context, string, string) (string, error) {
				switch {
				case silent.Load():
					return "", errors.New("no SN answers")
				case withdrawn.Load():
					return "no right", nil
				}
				return "", nil
			},
			Dial: func(context.Context, forward.Target) (forward.Half, error) { return pipe{Conn: member}, nil },
		})
		theirs, ours := net.Pipe()
		ended := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(ended)
			n.serve(t.Context(), pipe{theirs, p2p.Peer{Identity: id}})
		}()
		if err := forward.Ask(pipe{Conn: ours}, forward.Target{Assignment: "7", Epoch: 1, Port: 80}, time.Second); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(10*time.Second, func() { silent.Store(true) })
		time.AfterFunc(10*time.Minute, func() { silent.Store(false); withdrawn.Store(true) })
		<-ended
		if got := time.Since(began); got < 10*time.Minute || got > 11*time.Minute {
			t.Errorf("it ended after %v", got)
		}
	})
}
