package consensus

import "github.com/swarmd/swarmd/consensus/raftnet"

// Protocols that a Group answers and dials. Their number is raised when the wire format changes.
const (
	// ProtocolRaft carries raft's own messages; only servers of the configuration speak it.
	ProtocolRaft = raftnet.Protocol
	// ProtocolRPC carries HTTP/2 between SNs, with what they ask each other: see peerconn.
	ProtocolRPC = "/swarm/rpc/1"
	// ProtocolJoin carries the two requests of an SN that wants to become a server: for a nonce, and to be let in.
	ProtocolJoin = "/swarm/join/2"
)

// Peer is the other end of a stream, as proven by the network's handshake.
type Peer = raftnet.Peer

// Network opens and accepts streams between nodes.
type Network = raftnet.Network

// FormatAddress joins a peer ID and a host:port to the address form of this package, "peerID@host:port".
func FormatAddress(peerID, hostport string) string { return raftnet.FormatAddress(peerID, hostport) }

// ParseAddress splits an address into its peer ID and host:port and checks the form of both.
func ParseAddress(address string) (peerID, hostport string, err error) {
	return raftnet.ParseAddress(address)
}
