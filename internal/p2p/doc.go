// Package p2p is the peer-to-peer side of a node: libp2p over TCP with yamux and an own security transport that
// proves to each side the other's SPIFFE identity, node key and swarm. Its Host gives and takes streams; a Stream
// knows its peer. Who may open a stream of which protocol is decided here, by the Policy of the protocol.
//
// There is no libp2p swarm, identify, relay or peer store: nodes know each other's addresses from the replicated
// state, and everything that libp2p would learn from the network by itself is one thing more to trust.
package p2p
