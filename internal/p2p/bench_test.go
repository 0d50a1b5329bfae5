package p2p_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

// Both benchmarks take turns with what they are compared to: absolute figures say nothing on a busy machine, ratios do.
// docs/performance.md says how to read them.

// secured is one way to secure a TCP connection. Both sides have P-256 certificates and Ed25519 node keys.
type secured struct {
	name   string
	client func(ctx context.Context, raw net.Conn) (net.Conn, error)
	server func(ctx context.Context, raw net.Conn) (net.Conn, error)
}

// ways are our transport, libp2p's own TLS, and TLS 1.3 alone with our certificates and their verification.
func ways(b *testing.B) []secured {
	b.Helper()
	sw := p2ptest.New(b)
	transports := func(one, two sec.SecureTransport, id peer.ID) (client, server func(context.Context, net.Conn) (net.Conn, error)) {
		client = func(ctx context.Context, raw net.Conn) (net.Conn, error) { return one.SecureOutbound(ctx, raw, id) }
		server = func(ctx context.Context, raw net.Conn) (net.Conn, error) { return two.SecureInbound(ctx, raw, "") }
		return client, server
	}
	ck, sk := p2ptest.NewKey(b), p2ptest.NewKey(b)
	id, err := identity.PeerID(sk)
	if err != nil {
		b.Fatal(err)
	}
	csrc, ssrc := sw.Source("sl", ""), sw.Source("sn", "")
	var list []secured
	add := func(name string, one, two sec.SecureTransport, err1, err2 error) {
		if err1 != nil || err2 != nil {
			b.Fatal(err1, err2)
		}
		client, server := transports(one, two, id)
		list = append(list, secured{name, client, server})
	}
	one, err1 := p2p.NewSecurity(ck, csrc, sw.Domains)
	two, err2 := p2p.NewSecurity(sk, ssrc, sw.Domains)
	add("spiffe", one, two, err1, err2)
	mux := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	three, err1 := libp2ptls.New(libp2ptls.ID, ck, mux)
	four, err2 := libp2ptls.New(libp2ptls.ID, sk, mux)
	add("libp2p", three, four, err1, err2)
	list = append(list, secured{"tls", func(ctx context.Context, raw net.Conn) (net.Conn, error) {
		c := tls.Client(raw, identity.MutualTLS(csrc, nil))
		return c, c.HandshakeContext(ctx)
	}, func(ctx context.Context, raw net.Conn) (net.Conn, error) {
		c := tls.Server(raw, identity.MutualTLS(ssrc, nil))
		return c, c.HandshakeContext(ctx)
	}})
	return list
}

// handshake makes a TCP connection, secures it, and returns both ends and how long the securing took.
func (s secured) handshake(b *testing.B, l net.Listener) (client, server net.Conn, took time.Duration) {
	b.Helper()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	incoming, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	start := time.Now()
	go func() {
		var err error
		server, err = s.server(b.Context(), incoming)
		done <- err
	}()
	client, err = s.client(b.Context(), raw)
	if err2 := <-done; err != nil || err2 != nil {
		b.Fatal(s.name, err, err2)
	}
	return client, server, time.Since(start)
}

func loopback(b *testing.B) net.Listener {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

// BenchmarkHandshake measures whole handshakes, both sides on this machine, one at a time.
func BenchmarkHandshake(b *testing.B) {
	list, l := ways(b), loopback(b)
	total := map[string]time.Duration{}
	for b.Loop() {
		for _, s := range list {
			c, d, took := s.handshake(b, l)
			total[s.name] += took
			_ = c.Close()
			_ = d.Close()
		}
	}
	for _, s := range list {
		b.ReportMetric(float64(b.N)/total[s.name].Seconds(), s.name+"/s")
	}
	b.ReportMetric(float64(total["libp2p"])/float64(total["spiffe"]), "spiffe/libp2p")
	b.ReportMetric(float64(total["tls"])/float64(total["spiffe"]), "spiffe/tls")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkBulk sends one long stream over the host, over libp2p's TLS and yamux as libp2p sets it up, and over TLS.
func BenchmarkBulk(b *testing.B) {
	const chunk = 256 << 10
	sw := p2ptest.New(b)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	sn.Handle("/bulk", anyRole, func(_ context.Context, s *p2p.Stream) { sink(s); _ = s.Close() })
	stream, err := sl.Dial(b.Context(), p2ptest.AddrOf(b, sn), "/bulk")
	if err != nil {
		b.Fatal(err)
	}
	pipes := map[string]io.ReadWriter{"spiffe": stream}
	l := loopback(b)
	for _, s := range ways(b)[1:] {
		c, d, _ := s.handshake(b, l)
		defer func() { _ = c.Close(); _ = d.Close() }()
		if s.name == "libp2p" {
			pipes[s.name] = multiplexed(b, c, d)
			continue
		}
		pipes[s.name] = c
		go sink(d)
	}
	send := func(w io.ReadWriter) time.Duration {
		start := time.Now()
		buf := make([]byte, chunk)
		for range bulk / chunk {
			if _, err := w.Write(buf); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := io.ReadFull(w, buf[:1]); err != nil { // the sink has it all
			b.Fatal(err)
		}
		return time.Since(start)
	}
	total := map[string]time.Duration{}
	for b.Loop() {
		for name, w := range pipes {
			total[name] += send(w)
		}
	}
	for name := range pipes {
		b.ReportMetric(float64(b.N)*bulk/total[name].Seconds()/1e9, name+"-GB/s")
	}
	b.ReportMetric(float64(total["libp2p"])/float64(total["spiffe"]), "spiffe/libp2p")
	b.ReportMetric(float64(total["tls"])/float64(total["spiffe"]), "spiffe/tls")
	b.ReportMetric(0, "ns/op")
}

// multiplexed returns a yamux stream over c whose other end, over d, is a sink.
func multiplexed(b *testing.B, c, d net.Conn) io.ReadWriter {
	b.Helper()
	server, err := yamux.DefaultTransport.NewConn(d, true, &network.NullScope{})
	if err != nil {
		b.Fatal(err)
	}
	client, err := yamux.DefaultTransport.NewConn(c, false, &network.NullScope{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	go func() {
		if s, err := server.AcceptStream(); err == nil {
			sink(s)
		}
	}()
	s, err := client.OpenStream(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// bulk is how much is sent at a time: little, so that what else the machine does befalls all ways alike.
const bulk = 128 << 20

// sink reads and answers one byte for each bulk.
func sink(rw io.ReadWriter) {
	buf := make([]byte, 256<<10)
	for left := bulk; ; {
		n, err := rw.Read(buf)
		if err != nil {
			return
		}
		if left -= n; left == 0 {
			left = bulk
			if _, err := rw.Write(buf[:1]); err != nil {
				return
			}
		}
	}
}
