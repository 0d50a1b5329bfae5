// Package raftnet brings raft's messages from and to the streams of a swarm's network, and holds each to the peer that the
// network has proven before raft believes it.
package raftnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/swarmd/swarmd/identity/naming"
)

// Protocol carries raft's own messages; only servers of the configuration speak it.
const Protocol = "/swarm/raft/1"

// MaxAddress bounds an address in bytes: a peer ID, a host name and a port.
const MaxAddress = 512

// Peer is the other end of a stream, as proven by the network's handshake.
type Peer struct {
	// PeerID names the node key.
	PeerID string `json:"peer_id"`
	// Role is the role in the peer's SPIFFE ID ("sn", "sl", ...).
	Role string `json:"role"`
	// SPIFFEID is the peer's SPIFFE ID; empty where a network proves none.
	SPIFFEID string `json:"spiffe_id,omitempty"`
	// NodeName is the node name in the SPIFFE ID; empty if several nodes share the ID.
	NodeName string `json:"node_name,omitempty"`
	// SwarmID is the swarm that the peer says it belongs to; empty for a newcomer.
	SwarmID string `json:"swarm_id,omitempty"`
}

// Network opens and accepts streams between nodes. It is implemented over libp2p by node, and in memory by tests.
type Network interface {
	// Dial opens a stream to an address made by FormatAddress. It returns only after the other side has proven the
	// address's peer ID. If the stream has a method RemotePeer() Peer, the role is checked on this side too.
	Dial(ctx context.Context, address string, protocol string) (net.Conn, error)
	// Handle has fn called, each time in a goroutine of its own, with every accepted stream of a protocol. fn owns the
	// stream and returns only after it has closed it. A later call for the same protocol replaces fn.
	Handle(protocol string, fn func(conn net.Conn, peer Peer))
}

// remotePeer is what a dialled stream offers when the network can tell who answered.
type remotePeer interface{ RemotePeer() Peer }

// FormatAddress joins a peer ID and a host:port to the address form of this package, "peerID@host:port".
func FormatAddress(peerID, hostport string) string { return peerID + "@" + hostport }

// ParseAddress splits an address into its peer ID and host:port and checks the form of both.
func ParseAddress(address string) (peerID, hostport string, err error) {
	if len(address) > MaxAddress {
		return "", "", fmt.Errorf("parse address: %d bytes long, at most %d are allowed", len(address), MaxAddress)
	}
	peerID, hostport, found := strings.Cut(address, "@")
	if !found || peerID == "" {
		return "", "", fmt.Errorf("parse address %q: want peerID@host:port", address)
	}
	for _, c := range peerID {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' {
			return "", "", fmt.Errorf("parse address %q: peer ID has a character other than letters and digits", address)
		}
	}
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return "", "", fmt.Errorf("parse address %q: %w", address, err)
	}
	if host == "" || port == "" || strings.ContainsAny(hostport, "@ \t\r\n\x00") {
		return "", "", fmt.Errorf("parse address %q: want peerID@host:port", address)
	}
	return peerID, hostport, nil
}

// DialSN opens a stream and makes sure that an SN answered.
func DialSN(ctx context.Context, n Network, address, protocol string) (net.Conn, error) {
	conn, err := n.Dial(ctx, address, protocol)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	if p, ok := conn.(remotePeer); ok && p.RemotePeer().Role != naming.RoleSN {
		return nil, errors.Join(fmt.Errorf("dial %s: role %q is not an sn", address, p.RemotePeer().Role), conn.Close())
	}
	return conn, nil
}
