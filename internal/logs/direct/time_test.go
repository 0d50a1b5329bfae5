package direct_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/logs/direct"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// pipe is a stream in memory, on which nothing is written that is not read.
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

// inTime is a host and an operator in virtual time; served ends when the host has ended the stream.
func inTime(t *testing.T, from logs.Source, part *swarmv1.LogPart) (s p2p.Conn, o *swarmv1.LogOrder, served <-chan struct{}) {
	t.Helper()
	return (&bench{t: t}).inTime(from, part)
}

func (b *bench) inTime(from logs.Source, part *swarmv1.LogPart) (s p2p.Conn, o *swarmv1.LogOrder, served <-chan struct{}) {
	t := b.t
	t.Helper()
	a, err := rpctest.NewAuthority("h.org")
	if err != nil {
		t.Fatal(err)
	}
	domains, err := a.Domains()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(path string) *rpctest.Source {
		source, err := a.Issue(path, 100*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return source
	}
	operator := issue("/swarm/swci/ann")
	id, err := identity.ParseIDString("spiffe://h.org/swarm/swci/ann")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{}
	b.serve(n, issue("/swarm/swop/h-0"), domains, from)
	part.Node, part.Tail = "h-0", 10
	if o, err = logs.AskDirect(operator, swarmID, part); err != nil {
		t.Fatal(err)
	}
	theirs, ours := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.serve(t.Context(), pipe{theirs, p2p.Peer{Identity: id}})
	}()
	return pipe{Conn: ours}, o, done
}

// endless prints for as long as it is read, and counts.
type endless struct{ said *atomic.Int64 }

func (e endless) Log(_ context.Context, _ logs.Wanted, emit func(logs.Line) error) error {
	for {
		if err := emit(logs.Line{Text: strings.Repeat("x", 1000)}); err != nil {
			return err
		}
		e.said.Add(1)
	}
}

// TestSlowReader: what is not read is not printed either, and whoever reads nothing for long has no stream any more.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &atomic.Int64{}
		s, o, served := inTime(t, endless{said}, &swarmv1.LogPart{Follow: true})
		began := time.Now()
		_, err := direct.Read(t.Context(), s, o, time.Second, func(t *swarmv1.LogText) error {
			if len(t.GetLines()) == 0 {
				return nil
			}
			<-served
			return nil
		})
		if got := time.Since(began); err == nil || got < 5*time.Minute || got > 6*time.Minute {
			t.Errorf("%v after %v", err, got)
		}
		if n := said.Load(); n < 30 || n > 200 {
			t.Errorf("%d KiB were printed that nobody has read", n)
		}
	})
}

// TestMuchAtOnce: what does not fit into one text comes in the next ones, without a pause.
func TestMuchAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o, _ := inTime(t, printed{lines: slices.Repeat([]string{strings.Repeat("x", 8000)}, 10)}, &swarmv1.LogPart{})
		began, lines := time.Now(), 0
		if _, err := direct.Read(t.Context(), s, o, time.Second, func(t *swarmv1.LogText) error {
			lines += len(t.GetLines())
			return nil
		}); err != nil || lines != 10 || time.Since(began) > time.Second {
			t.Errorf("%d lines, %v after %v", lines, err, time.Since(began))
		}
	})
}

// quiet says nothing until it ends.
type quiet struct{ after time.Duration }

func (q quiet) Log(ctx context.Context, _ logs.Wanted, emit func(logs.Line) error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(q.after):
		return emit(logs.Line{Text: "at last"})
	}
}

// TestNothingToSay: a log in which nothing is printed for hours is read on.
func TestNothingToSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o, served := inTime(t, quiet{3 * time.Hour}, &swarmv1.LogPart{Follow: true})
		said := ""
		began, err := direct.Read(t.Context(), s, o, time.Second, func(t *swarmv1.LogText) error {
			for _, l := range t.GetLines() {
				said += l.GetText()
			}
			return nil
		})
		if !began || err != nil || said != "at last" {
			t.Errorf("%q, %v", said, err)
		}
		<-served
	})
}

// TestOperatorGoesAway: a host that is left alone reads no more, though it has nothing to say.
func TestOperatorGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o, served := inTime(t, quiet{3 * time.Hour}, &swarmv1.LogPart{Follow: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := direct.Read(ctx, s, o, time.Second, func(*swarmv1.LogText) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		<-served
		if got := time.Since(began); got != time.Minute {
			t.Errorf("the host goes on for %v", got)
		}
	})
}

// TestHostGoesAway: an operator does not wait for a host that does not begin, or is gone.
func TestHostGoesAway(t *testing.T) {
	for name, tt := range map[string]struct {
		texts  [][]byte
		closes bool
		after  time.Duration
		began  bool
		is     error
	}{
		"never begins":  {after: 2 * time.Second, is: os.ErrDeadlineExceeded},
		"says no more":  {texts: [][]byte{{}}, after: 30 * time.Second, began: true, is: direct.ErrSilent},
		"breaks off":    {texts: [][]byte{{}}, closes: true, began: true, is: io.ErrUnexpectedEOF},
		"ends at first": {closes: true, is: io.EOF},
		"says too much": {texts: [][]byte{make([]byte, logs.MaxDirect+1)}},
		"has said all":  {texts: [][]byte{{}, marshalled(t, &swarmv1.LogText{Over: true})}, began: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				go func() {
					_, _ = p2p.ReadFrame(theirs, 1<<20)
					for _, raw := range tt.texts {
						if err := p2p.WriteFrame(theirs, raw); err != nil {
							return
						}
					}
					if tt.closes {
						_ = theirs.Close()
					}
				}()
				at := time.Now()
				began, err := direct.Read(t.Context(), pipe{Conn: ours}, &swarmv1.LogOrder{}, 2*time.Second, func(*swarmv1.LogText) error { return nil })
				if began != tt.began || tt.is != nil && !errors.Is(err, tt.is) || (err == nil) != (name == "has said all") || time.Since(at) != tt.after {
					t.Errorf("%t, %v after %v", began, err, time.Since(at))
				}
			})
		})
	}
}

// TestRightsAreWithdrawn: a log that is followed ends soon after the swarm's rights keep its reader from it, with why, and without what was
// printed and not sent yet. SNs that can't say so end nothing.
func TestRightsAreWithdrawn(t *testing.T) {
	for name, from := range map[string]logs.Source{"nothing is printed": quiet{3 * time.Hour}, "much is printed": endless{&atomic.Int64{}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{t: t}
				s, o, served := b.inTime(from, &swarmv1.LogPart{Follow: true})
				set := func(barred string, unknown error) {
					b.mu.Lock()
					defer b.mu.Unlock()
					b.barred, b.unknown = barred, unknown
				}
				began := time.Now()
				time.AfterFunc(10*time.Second, func() { set("", errors.New("no SN answers")) })
				time.AfterFunc(10*time.Minute, func() { set("no right to read", nil) })
				var last *swarmv1.LogText
				if _, err := direct.Read(t.Context(), s, o, time.Second, func(t *swarmv1.LogText) error {
					last = t
					time.Sleep(time.Second)
					return nil
				}); err != nil {
					t.Error(err)
				}
				if got := time.Since(began); got < 10*time.Minute || got > 11*time.Minute+15*time.Second {
					t.Errorf("it ended after %v", got)
				}
				if !last.GetDenied() || !strings.Contains(last.GetRefused(), "no right to read") || len(last.GetLines()) > 0 {
					t.Errorf("the last text: %d lines, %q, denied %t", len(last.GetLines()), last.GetRefused(), last.GetDenied())
				}
				<-served
			})
		})
	}
}
