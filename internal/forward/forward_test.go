package forward_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/forward"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

const (
	swarmID = "swarm-1"
	soon    = 20 * time.Second // that something comes, on a busy machine
)

// bench is a host that forwards, and a program on it.
type bench struct {
	t     *testing.T
	swarm *p2ptest.Swarm
	at    p2p.Addr
	port  uint16 // where the program listens

	mu      sync.Mutex
	denied  error  // by the host's owner
	barred  string // by the swarm's rights
	unknown error  // why nobody knows these
	fails   error  // why the member is not reached
	ends    context.Context
}

// newBench begins with a program that says back what it is told, line by line, and at the end how much that was.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, swarm: p2ptest.New(t), ends: t.Context()}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				n, _ := io.Copy(c, c)
				_, _ = fmt.Fprintf(c, "%d bytes", n)
				_ = c.Close()
			}()
		}
	}()
	b.port = l.Addr().(*net.TCPAddr).AddrPort().Port()
	host := b.swarm.Host(identity.RoleSWOP, swarmID)
	b.at = p2ptest.AddrOf(t, host)
	forward.ServeMembers(host.Network(), forward.Config{
		Node: "h-0", Log: slog.New(slog.DiscardHandler), Dial: b.dial,
		Allow: func(string) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.denied
		},
		Rights: func(context.Context, string, string) (string, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.barred, b.unknown
		},
	})
	return b
}

func (b *bench) dial(ctx context.Context, to forward.Target) (forward.Half, error) {
	b.mu.Lock()
	fails, ends := b.fails, b.ends
	b.mu.Unlock()
	if fails != nil {
		return nil, fails
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", to.Port))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ends, func() { _ = c.Close() })
	return c.(*net.TCPConn), nil
}

func (b *bench) target() forward.Target {
	return forward.Target{Assignment: "7", Epoch: 1, Member: 2, Port: b.port}
}

// ask opens a connection to a target.
func (b *bench) ask(from *p2p.Host, to forward.Target) (*p2p.Stream, error) {
	b.t.Helper()
	s, err := from.Dial(b.t.Context(), b.at, forward.Protocol)
	if err != nil {
		return nil, err
	}
	return s, forward.Ask(s, to, soon)
}

// TestConnection: what is said on one side comes out on the other, each direction to its own end.
func TestConnection(t *testing.T) {
	b := newBench(t)
	operator := b.swarm.Host(identity.RoleSWCI, swarmID)
	for range 3 {
		s, err := b.ask(operator, b.target())
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SetDeadline(time.Now().Add(soon))
		said := strings.Repeat("x", 300_000)
		go func() {
			_, _ = io.WriteString(s, said)
			_ = s.CloseWrite()
		}()
		got, err := io.ReadAll(s)
		if want := said + "300000 bytes"; err != nil || string(got) != want {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		_ = s.Close()
	}
}

// TestEnds: a connection ends with the member that it leads to, and nobody waits for the other side.
func TestEnds(t *testing.T) {
	b := newBench(t)
	ends, end := context.WithCancel(t.Context())
	b.ends = ends
	s, err := b.ask(b.swarm.Host(identity.RoleSWCI, swarmID), b.target())
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SetDeadline(time.Now().Add(soon))
	end()
	if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read after the member's end: %v", err)
	}
}

// TestWhoIsConnected: operators alone, whom the host's owner and the swarm's rights let.
func TestWhoIsConnected(t *testing.T) {
	b := newBench(t)
	for _, role := range []identity.Role{identity.RoleSN, identity.RoleSL, identity.RoleSWOP, identity.RoleAudit} {
		if _, err := b.ask(b.swarm.Host(role, swarmID), b.target()); err == nil || !strings.Contains(err.Error(), "may not use "+forward.Protocol) {
			t.Errorf("role %s: %v", role, err)
		}
	}
	if _, err := b.ask(b.swarm.Host(identity.RoleSWCI, "swarm-2"), b.target()); err == nil {
		t.Error("an operator of another swarm has a connection")
	}
	operator := b.swarm.Host(identity.RoleSWCI, swarmID)
	for name, tt := range map[string]struct {
		denied, unknown, fails error
		barred                 string
		to                     func(*forward.Target)
		want                   string
		over                   bool
	}{
		"by the owner's say": {denied: errors.New("not to you"), want: "h-0: not to you", over: true},
		"by the swarm's":     {barred: "no right", want: "h-0: no right", over: true},
		"nobody knows":       {unknown: errors.New("no SN answers"), want: "h-0: no SN says whether the swarm's rights allow it: no SN answers"},
		"not yet":            {fails: errors.New("nothing\nlistens"), want: "h-0: nothing listens"},
		"gone":               {fails: fmt.Errorf("member 2: %w", forward.ErrGone), want: "h-0: member 2: it does not run", over: true},
		"no assignment":      {to: func(x *forward.Target) { x.Assignment = "" }, want: "h-0: it names no assignment", over: true},
		"no port":            {to: func(x *forward.Target) { x.Port = 0 }, want: "h-0: it names no port", over: true},
	} {
		b.mu.Lock()
		b.denied, b.barred, b.unknown, b.fails = tt.denied, tt.barred, tt.unknown, tt.fails
		b.mu.Unlock()
		to := b.target()
		if tt.to != nil {
			tt.to(&to)
		}
		_, err := b.ask(operator, to)
		if no, is := errors.AsType[*forward.RefusedError](err); !is || no.Refused != tt.want || no.Over != tt.over {
			t.Errorf("%s: %v, want %q, over %t", name, err, tt.want, tt.over)
		}
	}
}

// TestBadQuestions: what is no question ends the stream, unread beyond its bounds.
func TestBadQuestions(t *testing.T) {
	b := newBench(t)
	operator := b.swarm.Host(identity.RoleSWCI, swarmID)
	for name, raw := range map[string][]byte{
		"huge":                binary.BigEndian.AppendUint32(nil, 1<<31),
		"long":                append(binary.BigEndian.AppendUint32(nil, 8<<10), make([]byte, 8<<10)...),
		"no JSON":             append(binary.BigEndian.AppendUint32(nil, 3), "abc"...),
		"a port beyond ports": append(binary.BigEndian.AppendUint32(nil, 31), `{"assignment":"7","port":65536}`...),
	} {
		s, err := operator.Dial(t.Context(), b.at, forward.Protocol)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SetDeadline(time.Now().Add(soon))
		_, _ = s.Write(raw) // it may be reset meanwhile
		if m, err := p2p.ReadFrame(s, 1<<20); err == nil {
			t.Errorf("%s: answered with %q", name, m)
		}
		_ = s.Reset()
	}
}

// TestManyConnections: one operator has so many, and ended ones leave room.
func TestManyConnections(t *testing.T) {
	b := newBench(t)
	operator := b.swarm.Host(identity.RoleSWCI, swarmID)
	var open []*p2p.Stream
	for range 64 {
		s, err := b.ask(operator, b.target())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, s)
	}
	_, err := b.ask(operator, b.target())
	if no, is := errors.AsType[*forward.RefusedError](err); !is || no.Over || !strings.Contains(no.Refused, "h-0 has 64 connections to members forwarded for spiffe://swarm.learning/swarm/swci already") {
		t.Errorf("one more: %v", err)
	}
	for _, s := range open {
		_ = s.Reset()
	}
	for deadline := time.Now().Add(soon); ; {
		if _, err := b.ask(operator, b.target()); err == nil {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("ended streams leave no room: %v", err)
		}
	}
}
