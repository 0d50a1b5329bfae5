package p2p_test

import (
	"context"
	"crypto/tls"
	"io"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

// BenchmarkBulk sends one long stream over the host and over plain crypto/tls in turn, and reports the ratio of
// their speeds: absolute figures say nothing on a busy machine.
func BenchmarkBulk(b *testing.B) {
	const size, chunk = 512 << 20, 256 << 10
	sw := p2ptest.New(b)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	sn.Handle("/bulk", anyRole, func(_ context.Context, s *p2p.Stream) { sink(s); _ = s.Close() })
	stream, err := sl.Dial(b.Context(), p2ptest.AddrOf(b, sn), "/bulk")
	if err != nil {
		b.Fatal(err)
	}
	src := sw.Source("sl", "")
	l, err := tls.Listen("tcp", "127.0.0.1:0", identity.ServerTLS(src, sw.Domains))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		if c, err := l.Accept(); err == nil {
			sink(c)
			_ = c.Close()
		}
	}()
	plain, err := tls.Dial("tcp", l.Addr().String(), identity.ClientTLS(src, sw.Domains))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	send := func(w io.ReadWriter) float64 {
		start := time.Now()
		buf := make([]byte, chunk)
		for range size / chunk {
			if _, err := w.Write(buf); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := io.ReadFull(w, buf[:1]); err != nil { // the sink has it all
			b.Fatal(err)
		}
		return size / time.Since(start).Seconds()
	}
	var host, direct float64
	for b.Loop() {
		host += send(stream)
		direct += send(plain)
	}
	b.ReportMetric(host/float64(b.N)/1e9, "host-GB/s")
	b.ReportMetric(direct/float64(b.N)/1e9, "tls-GB/s")
	b.ReportMetric(host/direct, "host/tls")
	b.ReportMetric(0, "ns/op")
}

// sink reads and answers one byte for each 512 MiB.
func sink(rw io.ReadWriter) {
	buf := make([]byte, 256<<10)
	for left := 512 << 20; ; {
		n, err := rw.Read(buf)
		if err != nil {
			return
		}
		if left -= n; left == 0 {
			left = 512 << 20
			if _, err := rw.Write(buf[:1]); err != nil {
				return
			}
		}
	}
}
