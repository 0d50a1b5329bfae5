package rpc_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc"
)

// endless is a request's body that gives so many bytes and then nothing, until it is closed.
type endless struct {
	left  int
	ended chan struct{}
	once  sync.Once
	took  *atomic.Int64
}

func (e *endless) Close() error {
	e.once.Do(func() { close(e.ended) })
	return nil
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		<-e.ended
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), e.left)
	e.left -= n
	e.took.Add(int64(n))
	return n, nil
}

// hold begins so many calls of a method that never end, on one connection, and returns how many bytes of them were taken;
// wait returns when the server has ended them all.
func (p *peer) hold(ctx context.Context, tb testing.TB, procedure string, calls, bytes int) (took *atomic.Int64, wait func()) {
	tb.Helper()
	if err := p.isUp(); err != nil { // else each call would dial
		tb.Fatal(err)
	}
	p.http.Timeout = 0
	took = &atomic.Int64{}
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url()+procedure, &endless{left: bytes, ended: make(chan struct{}), took: took})
			if err != nil {
				tb.Error(err)
				return
			}
			req.ContentLength = int64(bytes) + 1
			req.Header = p.header.Clone()
			req.Header.Set("Content-Type", "application/proto")
			res, err := p.http.Do(req)
			if err != nil {
				return // cut by the server, or by the test
			}
			_ = res.Body.Close()
		})
	}
	return took, wg.Wait
}

// TestLittleIsReadOfWhatAMethodDoesNotNeed has one connection send 256 MiB to a method that takes an empty message.
func TestLittleIsReadOfWhatAMethodDoesNotNeed(t *testing.T) {
	s := newSwarm(t)
	const calls = 64
	took, wait := s.as("/swarm/sl").hold(t.Context(), t, swarmv1connect.SwarmServiceGetSwarmProcedure, calls, rpc.MaxMessage-1)
	wait() // for the server's timeout of bodies at the latest
	if got, most := took.Load(), int64(calls*512<<10); got > most {
		t.Errorf("%d MiB were taken, want %d at most", got>>20, most>>20)
	}
}

// TestManyNodesOfOneSPIFFEIDAreServed: the shared entries of small swarms give all SLs one SPIFFE ID.
func TestManyNodesOfOneSPIFFEIDAreServed(t *testing.T) {
	s := newSwarmWithLongTimeouts(t) // 100 calls begin at once: on a busy machine a request takes more than a second
	source := s.source("/swarm/sl")
	terms := wireTerms(layout(t, 100), 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var (
		wg    sync.WaitGroup
		peers []*peer
	)
	views := make([]*connect.ServerStreamForClient[swarmv1.ContractView], 100)
	for i := range views {
		p := s.connect(source)
		p.register(t, fmt.Sprintf("sl-%d", i), nodeKey(t))
		if _, err := p.open(t, fmt.Sprintf("%032x", i), terms); err != nil {
			t.Fatalf("node %d: open: %v", i, err)
		}
		peers = append(peers, p)
	}
	for i, p := range peers { // only now: each session that opens changes what all see
		wg.Go(func() {
			var err error
			if views[i], err = p.sessions().WatchContract(ctx, with(p, &swarmv1.WatchContractRequest{Contract: "study"})); err != nil {
				t.Errorf("node %d: watch: %v", i, err)
				return
			}
			if !views[i].Receive() {
				t.Errorf("node %d: watch: %v", i, views[i].Err())
			}
			for range 3 {
				if _, err := p.sessions().Report(ctx, with(p, &swarmv1.ReportRequest{})); err != nil {
					t.Errorf("node %d: report: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	for _, v := range views {
		if v != nil {
			_ = v.Close()
		}
	}
}

// TestConnectionsOfOneSPIFFEIDAreBounded: one too many costs the oldest.
func TestConnectionsOfOneSPIFFEIDAreBounded(t *testing.T) {
	s := newSwarmWith(t, rpc.Limits{Conns: identity.CrowdLimits{Named: 2}})
	source := s.source("/swarm/sl/sl-0")
	var conns []*tls.Conn
	for i := range 4 {
		cfg := identity.ClientTLS(source, s.domains(), identity.RoleSN)
		cfg.NextProtos = []string{"http/1.1"}
		c, err := tls.Dial("tcp", s.addr, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		conns = append(conns, c)
		fmt.Fprintf(c, "GET /is_up HTTP/1.1\r\nHost: x\r\nSwarm-Id: %s\r\n\r\n", swarmID)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	for i, c := range conns[:2] {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d is still open", i)
		}
	}
}

// BenchmarkMemoryOfOneSPIFFEID tells what 64 connections of one SVID cost that hold 16 calls each of the largest message that
// most methods take. Client and server are in one process, so the heap holds both; each call costs the client a copy of its
// message. Once is enough: -benchtime 1x.
func BenchmarkMemoryOfOneSPIFFEID(b *testing.B) {
	for b.Loop() {
		s := newSwarmWithLongTimeouts(b)
		source := s.source("/swarm/sl/sl-0")
		ctx, cancel := context.WithCancel(b.Context())
		before := heap()
		var waits []func()
		var took []*atomic.Int64
		for range 64 {
			p := s.connect(source)
			t, w := p.hold(ctx, b, swarmv1connect.SwarmServiceGetSwarmProcedure, 16, 64<<10-1)
			took, waits = append(took, t), append(waits, w)
		}
		taken := settled(took)
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-heap")
		b.ReportMetric(float64(rpc.Charged(s.server))/(1<<20), "MiB-charged")
		b.ReportMetric(float64(taken)/(1<<20), "MiB-of-the-client")
		cancel()
		for _, w := range waits {
			w()
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settled waits until nothing more is taken for a second.
func settled(took []*atomic.Int64) int64 {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := int64(-1); ; {
		<-tick.C
		sum := int64(0)
		for _, t := range took {
			sum += t.Load()
		}
		if sum == last {
			return sum
		}
		last = sum
	}
}

// TestHeartbeatsWaitForNobodyOfTheirSPIFFEID: somebody with an SVID of a shared entry, and no token, begins calls that never end, which
// take all that callers of that SPIFFE ID may.
func TestHeartbeatsWaitForNobodyOfTheirSPIFFEID(t *testing.T) {
	const most = 1 << 20
	s := startSwarm(t, rpc.Config{BodyTime: time.Hour, Limits: rpc.Limits{MemoryPerID: most}}) // on no machine is the flood over before
	source := s.source("/swarm/sl")
	honest := s.connect(source)
	honest.register(t, "honest", nodeKey(t))
	ctx, cancel := context.WithCancel(t.Context())
	_, wait := s.connect(source).hold(ctx, t, swarmv1connect.SwarmServiceGetSwarmProcedure, 64, 60)
	defer wait()
	defer cancel()
	for most-rpc.Charged(s.server) > 32<<10 && ctx.Err() == nil { // no room for one more
		runtime.Gosched()
	}
	soon, stop := context.WithTimeout(t.Context(), 2*time.Minute) // less than a call waits for its turn
	defer stop()
	if _, err := honest.sessions().Report(soon, with(honest, &swarmv1.ReportRequest{})); err != nil {
		t.Error(err)
	}
}

// TestHeartbeatsWaitForNoOtherSPIFFEID: somebody with an SVID of a shared entry registers many nodes, which hold all the memory for
// small calls that they get.
func TestHeartbeatsWaitForNoOtherSPIFFEID(t *testing.T) {
	const inAll, each, nodes = 1 << 20, 256 << 10, 5
	s := startSwarm(t, rpc.Config{BodyTime: time.Hour, Limits: rpc.Limits{MemoryNodes: inAll, MemoryPerNode: each}})
	honest := s.as("/swarm/sl/honest")
	honest.register(t, "honest", nodeKey(t))
	ctx, cancel := context.WithCancel(t.Context())
	var waits []func()
	defer func() {
		cancel()
		for _, wait := range waits {
			wait()
		}
	}()
	source := s.source("/swarm/sl")
	for i := range nodes {
		p := s.connect(source)
		p.register(t, fmt.Sprintf("hoarder-%d", i), nodeKey(t))
		took, wait := p.hold(ctx, t, swarmv1connect.SessionServiceReportProcedure, 16, 60)
		waits = append(waits, wait)
		for took.Load() < 16*60 && ctx.Err() == nil { // all have been sent
			runtime.Gosched()
		}
	}
	for rpc.ChargedToNodes(s.server) < inAll*3/4-33<<10 && ctx.Err() == nil { // they have what they get
		runtime.Gosched()
	}
	soon, stop := context.WithTimeout(t.Context(), 2*time.Minute) // less than a call waits for its turn
	defer stop()
	if _, err := honest.sessions().Report(soon, with(honest, &swarmv1.ReportRequest{})); err != nil {
		t.Error(err)
	}
}
