package p2p

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
)

const (
	// keepAlive and pingTimeout: a peer that vanished without a word is found within their sum, by a host of few connections. Whoever waits
	// for something has times of its own; this one is long, as a peer on a busy machine may have no processor time for its answer.
	keepAlive   = 5 * time.Second
	pingTimeout = 30 * time.Second
	// fewConns is how many connections a host asks so often whether they live. With a hundred hosts on one machine, or in one
	// swarm behind one slow host, the questions alone would be ten thousand in five seconds, and their answers would be late.
	fewConns = 16
	// slowest is how many times as rarely a host of very many asks, and slowestPing as long it waits.
	slowest, slowestPing = 6, 2
	// maxStreams bounds the open streams that one connection's peer has opened.
	maxStreams = 256
	// window is the most that a stream buffers for its reader: what a 1 Gbit/s link with 100 ms needs, and more.
	window = 16 << 20
)

// boundMuxer is yamux whose streams are charged to their peers, with a faster keep-alive and a bound on incoming streams.
type boundMuxer struct {
	memory *memory
	open   atomic.Int64 // connections that it carries
}

// NewConn implements network.Multiplexer.
func (m *boundMuxer) NewConn(nc net.Conn, isServer bool, _ network.PeerScope) (network.MuxedConn, error) {
	c, ok := nc.(*secureConn)
	if !ok {
		return nil, errNoSecurity
	}
	share := m.memory.open(c)
	among := m.open.Add(1)
	left := sync.OnceFunc(func() { m.open.Add(-1) })
	muxed, err := muxerAmong(among).NewConn(newMeter(closeCounter{nc, left}, share), isServer, &connScope{share: share})
	if err != nil {
		left()
	}
	return muxed, err
}

// muxerAmong returns the muxer of the newest of n connections.
func muxerAmong(n int64) *yamux.Transport {
	times := time.Duration(min(max(1, n/fewConns), slowest))
	cfg := *yamux.DefaultTransport.Config()
	cfg.MaxStreamWindowSize = window
	cfg.MaxIncomingStreams = maxStreams
	cfg.KeepAliveInterval = times * keepAlive
	cfg.ConnectionWriteTimeout = min(times, slowestPing) * pingTimeout
	return (*yamux.Transport)(&cfg)
}

// closeCounter tells when yamux closes the connection, as it does at its end, whoever ends it.
type closeCounter struct {
	net.Conn
	left func() // may be called more than once
}

// Close implements net.Conn.
func (c closeCounter) Close() error {
	c.left()
	return c.Conn.Close()
}
