// Package gatetest floods listeners of this machine, for tests of who is let in meanwhile. Only tests import it.
package gatetest

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sources = 8
	// beat is how often connections are opened.
	beat = 2 * time.Millisecond
)

// Flood is connections that are opened steadily and say nothing.
type Flood struct {
	opened atomic.Int64
	stop   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

// Start opens so many connections in a second to a listener on loopback, from eight addresses, 127.0.0.2 to 127.0.0.9,
// until Stop or the end of the test. greeting is what each says at once, nil for nothing.
func Start(tb testing.TB, addr string, perSecond int, greeting []byte) *Flood {
	tb.Helper()
	return StartAll(tb, []string{addr}, perSecond, greeting)
}

// StartAll does as Start to several listeners, in turns.
func StartAll(tb testing.TB, addrs []string, perSecond int, greeting []byte) *Flood {
	tb.Helper()
	var to []netip.AddrPort
	for _, addr := range addrs {
		a, err := netip.ParseAddrPort(addr)
		if err != nil || !a.Addr().Is4() || !a.Addr().IsLoopback() {
			tb.Fatalf("flood %s: want an IPv4 address of loopback", addr)
		}
		to = append(to, a)
	}
	f := &Flood{stop: make(chan struct{})}
	tb.Cleanup(f.Stop)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		tb.Fatal(err)
	}
	// Half a kernel's queue and more stay open for as long as this process may: one that is closed is soon out of the way.
	kept := int(min(files.Cur*3/4, 16000)) / sources
	for i := range sources {
		f.wg.Go(func() {
			s := &source{from: [4]byte{127, 0, 0, byte(2 + i)}, to: to, next: i, greeting: greeting, kept: kept}
			defer s.close()
			if err := f.run(s, perSecond/sources); err != nil {
				tb.Errorf("flood from %v: %v", s.from, err)
			}
		})
	}
	return f
}

// Opened returns how many connections were opened so far.
func (f *Flood) Opened() int { return int(f.opened.Load()) }

// Await returns when so many were opened.
func (f *Flood) Await(n int) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for f.Opened() < n {
		<-tick.C
	}
}

// Stop ends the flood and closes its connections.
func (f *Flood) Stop() {
	f.once.Do(func() { close(f.stop) })
	f.wg.Wait()
}

func (f *Flood) run(s *source, perSecond int) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	start := time.Now()
	for n := 0; ; {
		for due := int(time.Since(start).Seconds() * float64(perSecond)); n < due; n++ {
			if err := s.open(); err != nil {
				return err
			}
			f.opened.Add(1)
		}
		select {
		case <-f.stop:
			return nil
		case <-tick.C:
		}
	}
}

// source opens connections by system calls that wait for nothing, so that a full queue does not slow it down.
type source struct {
	from     [4]byte
	to       []netip.AddrPort
	next     int // of those
	greeting []byte
	held     []int
	kept     int // of those, at most
}

func (s *source) open() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: s.from})
	if err == nil {
		to := s.to[s.next%len(s.to)]
		s.next++
		err = unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
	}
	if err != nil && err != unix.EINPROGRESS && err != unix.ECONNREFUSED { // who is flooded may have ended
		_ = unix.Close(fd)
		return fmt.Errorf("connect: %w", err)
	}
	if len(s.greeting) > 0 {
		_, _ = unix.Write(fd, s.greeting) // the other side may have hung up
	}
	if s.held = append(s.held, fd); len(s.held) > s.kept {
		_ = unix.Close(s.held[0])
		s.held = s.held[1:]
	}
	return nil
}

func (s *source) close() {
	for _, fd := range s.held {
		_ = unix.Close(fd)
	}
}

// Measure floods the listener with 5,000 silent connections a second for ten seconds, in which the honest dials are made one
// after another. It reports how long these took, and an error if one failed.
func Measure(b *testing.B, addr string, dials int, dial func(i int) error) {
	b.Helper()
	const rate, lasts = 5000, 10 * time.Second
	begin := time.Now()
	f := Start(b, addr, rate, nil)
	f.Await(rate)
	every := time.NewTicker((lasts - time.Since(begin)) / time.Duration(dials))
	defer every.Stop()
	failed := 0
	var took []time.Duration
	for i := range dials {
		<-every.C
		start := time.Now()
		if err := dial(i); err != nil {
			if failed++; failed == 1 {
				b.Logf("the first that failed, after %s: %v", time.Since(start).Round(time.Millisecond), err)
			}
		}
		took = append(took, time.Since(start))
	}
	f.Stop()
	slices.Sort(took)
	median, worst := took[len(took)/2], took[len(took)-1]
	b.ReportMetric(float64(f.Opened())/time.Since(begin).Seconds(), "flood/s")
	b.ReportMetric(float64(failed), "failed")
	b.ReportMetric(float64(median.Microseconds())/1000, "median-ms")
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
	if failed > 0 {
		b.Errorf("%d of %d honest dials failed", failed, dials)
	}
}
