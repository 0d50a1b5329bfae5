package swop

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/logs/direct"
	"github.com/swarmd/swarmd/internal/p2p"
)

// FilePort says where a host's file server is to listen.
type FilePort struct {
	Number int  // 0: the host has no file server
	Named  bool // by its owner, who is told by an error if it can't be had; else the host does without
}

// portOption is the option that names it.
const portOption = "swop-fs-port"

// Machine is what a file server takes of its host.
type Machine struct {
	Host   string // under which others reach it
	Lookup address.Lookup
	Listen address.Listen
	Open   func(cfg p2p.Config) (p2p.Network, error)
}

// FileServer is the host's own end of the peer-to-peer network, where operators dial it. One that listens nowhere serves nobody.
type FileServer struct {
	network p2p.Network // nil: it listens nowhere
	port    int
}

// Free says why a port can't be listened at, with the remedy; nil: it can.
func (m Machine) Free(ctx context.Context, at FilePort) error {
	return m.Listen.CheckFree(ctx, m.bind(ctx), portOption, at.Number)
}

// OpenFileServer begins to listen. cfg has all but the addresses. The caller closes the server.
func OpenFileServer(ctx context.Context, at FilePort, m Machine, cfg p2p.Config) (*FileServer, error) {
	if at.Number == 0 {
		return &FileServer{}, nil
	}
	bind := m.bind(ctx)
	cfg.ListenAddrs = []string{address.Join(bind, at.Number)}
	err := m.Listen.CheckFree(ctx, bind, portOption, at.Number)
	if err == nil {
		var network p2p.Network
		if network, err = m.Open(cfg); err == nil {
			cfg.Log.Info("operators may dial the file server", "address", cfg.ListenAddrs[0])
			return &FileServer{network, at.Number}, nil
		}
	}
	if at.Named || !errors.Is(err, syscall.EADDRINUSE) {
		return nil, err
	}
	cfg.Log.Warn("this host has no file server, so that logs go through SNs", "err", err)
	return &FileServer{}, nil
}

// bind is where to listen: on the address that others are told, else on all. A name may lead to loopback on its own host alone, as that of the
// host does on many.
func (m Machine) bind(ctx context.Context) string {
	ips, err := m.Lookup.Resolve(ctx, "host-ip", m.Host)
	if err != nil {
		return "" // whoever has another name server may know it
	}
	if net.ParseIP(m.Host) == nil {
		ips = slices.DeleteFunc(ips, net.IP.IsLoopback)
	}
	return address.Bindable(ips)
}

// Port is where it listens; 0: nowhere.
func (f *FileServer) Port() uint32 { return uint32(f.port) } //nolint:gosec // it is one

// Cut ends the connections of a node key that is banned.
func (f *FileServer) Cut(peerID string) {
	if id, err := peer.Decode(peerID); err == nil && f.network != nil {
		f.network.Disconnect(id)
	}
}

// Close stops listening, and waits until nothing is served any more.
func (f *FileServer) Close() error {
	if f.network == nil {
		return nil
	}
	return f.network.Close()
}

// handOut serves the logs of a host.
func (f *FileServer) handOut(printed *logs.Host, cfg Config) {
	if f.network != nil {
		direct.HandOut(f.network, printed, cfg.Name, cfg.Log)
	}
}
