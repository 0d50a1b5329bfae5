package peerconn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/peerconn"
	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/identity/naming"
)

const leader = "idb@b:30303"

// pair is one SN that asks, and one that answers, in memory.
type pair struct {
	t      *testing.T
	pool   *peerconn.Pool
	server *peerconn.Server

	mu     sync.Mutex
	ends   []net.Conn // of the asking side
	refuse error
	silent bool
	served sync.WaitGroup
}

func newPair(t *testing.T, h http.HandlerFunc) *pair {
	p := &pair{t: t, server: peerconn.NewServer(h, slog.New(slog.DiscardHandler))}
	p.pool = peerconn.New(p.dial)
	t.Cleanup(func() {
		p.pool.Close()
		p.server.Close()
		p.served.Wait()
	})
	return p
}

func (p *pair) dial(ctx context.Context, address string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if address != leader {
		p.t.Errorf("dialled %s", address)
	}
	if p.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if p.refuse != nil {
		return nil, p.refuse
	}
	a, b := net.Pipe()
	p.ends = append(p.ends, a)
	p.served.Go(func() { p.server.Serve(b, raftnet.Peer{PeerID: "ida", Role: naming.RoleSN}) })
	return a, nil
}

func (p *pair) ask(ctx context.Context, body string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sn/x", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := p.pool.To(leader).RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s says %s", peerconn.PeerOf(r.Context()).PeerID, b)
}

func TestOneConnectionForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, echo)
		var asked sync.WaitGroup
		for i := range 300 { // more than may be open at a time
			asked.Go(func() {
				want := fmt.Sprintf("ida says %d", i)
				if got, err := p.ask(t.Context(), fmt.Sprint(i)); err != nil || got != want {
					t.Errorf("%q, %v, want %q", got, err, want)
				}
			})
		}
		asked.Wait()
		if len(p.ends) != 1 {
			t.Errorf("%d connections, want 1", len(p.ends))
		}
	})
}

func TestLostLinkIsOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength == 4 { // "hold"
				<-hold
			}
			echo(w, r)
		})
		failed := make(chan error, 1)
		go func() {
			_, err := p.ask(t.Context(), "hold")
			failed <- err
		}()
		synctest.Wait()
		_ = p.ends[0].Close()
		if err := <-failed; !errors.Is(err, peerconn.ErrLost) {
			t.Errorf("a request on a connection that broke: %v, want ErrLost", err)
		}
		close(hold)
		if got, err := p.ask(t.Context(), "again"); err != nil || got != "ida says again" {
			t.Errorf("after the connection broke: %q, %v", got, err)
		}
		p.pool.DropOf(func(address string) bool { return address == leader })
		if got, err := p.ask(t.Context(), "third"); err != nil || got != "ida says third" || len(p.ends) != 3 {
			t.Errorf("after the connection was dropped: %q, %v, %d connections", got, err, len(p.ends))
		}
	})
}

// TestOneRequestBreaksNoOther: what is wrong with one request costs the others on its connection nothing.
func TestOneRequestBreaksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.ContentLength {
			case 4: // "hold"
				<-hold
			case 5: // "abort"
				panic(http.ErrAbortHandler)
			}
			echo(w, r)
		})
		held := make(chan error, 1)
		go func() {
			_, err := p.ask(t.Context(), "hold")
			held <- err
		}()
		synctest.Wait()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://sn/x", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X", strings.Repeat("x", 1<<20))
		if res, err := p.pool.To(leader).RoundTrip(r); err == nil || errors.Is(err, peerconn.ErrLost) {
			t.Errorf("headers of a MiB: %v, %v", res, err)
		}
		if _, err := p.ask(t.Context(), "abort"); err == nil || errors.Is(err, peerconn.ErrLost) {
			t.Errorf("a handler that gave up: %v", err)
		}
		close(hold)
		if err := <-held; err != nil || len(p.ends) != 1 {
			t.Errorf("another request beside it: %v, %d connections", err, len(p.ends))
		}
	})
}

// TestUnreadRequestsBreakNoOther: requests whose handlers wait before they read, as for memory, leave room for others, however many
// they are.
func TestUnreadRequestsBreakNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 100 {
				<-hold
			}
			echo(w, r)
		})
		var waiting sync.WaitGroup
		for range 127 { // of 128
			waiting.Go(func() {
				if _, err := p.ask(t.Context(), strings.Repeat("x", 1<<20)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := p.ask(ctx, "a heartbeat"); err != nil {
			t.Errorf("beside them: %v", err)
		}
		close(hold)
		waiting.Wait()
	})
}

func TestEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan struct{})
		p := newPair(t, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			close(told)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.ask(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request whose time is over: %v", err)
		}
		<-told // the other side does not work on
		if len(p.ends) != 1 {
			t.Errorf("%d connections, want 1", len(p.ends))
		}
	})
}

func TestDialThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, echo)
		p.refuse = errors.New("no route")
		if _, err := p.ask(t.Context(), "x"); !errors.Is(err, peerconn.ErrLost) || !strings.Contains(err.Error(), "no route") {
			t.Errorf("a dial that failed: %v", err)
		}
		p.refuse, p.silent = nil, true
		begin := time.Now()
		if _, err := p.ask(t.Context(), "x"); !errors.Is(err, peerconn.ErrLost) || time.Since(begin) != 10*time.Second {
			t.Errorf("a dial without an answer: %v after %s", err, time.Since(begin))
		}
		p.silent = false
		if _, err := p.ask(t.Context(), "x"); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		failed := make(chan error, 1)
		go func() {
			_, err := p.ask(t.Context(), "x")
			failed <- err
		}()
		synctest.Wait()
		p.pool.Close()
		if err := <-failed; !errors.Is(err, peerconn.ErrLost) {
			t.Errorf("a request when the pool closes: %v", err)
		}
		if _, err := p.ask(t.Context(), "x"); !errors.Is(err, peerconn.ErrClosed) {
			t.Errorf("a request when the pool is closed: %v", err)
		}
		p.pool.Close()
	})
}

// FuzzServer gives the server what a hostile SN may send on a stream.
func FuzzServer(f *testing.F) {
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	f.Add([]byte(preface))
	f.Add([]byte(preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	f.Add([]byte(preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x03\x01\x05\x00\x00\x00\x01\x83\x86\x84"))
	f.Add([]byte("POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := peerconn.NewServer(http.HandlerFunc(echo), slog.New(slog.DiscardHandler))
		a, b := net.Pipe()
		var ended sync.WaitGroup
		ended.Go(func() { s.Serve(b, raftnet.Peer{PeerID: "ida"}) })
		ended.Go(func() { _, _ = io.Copy(io.Discard, a) })
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.Copy(a, bytes.NewReader(sent))
		_ = a.Close()
		s.Close()
		ended.Wait()
	})
}
