package p2p

import "github.com/libp2p/go-libp2p/core/peer"

// Connections returns how many connections the host has with the peer.
func Connections(h *Host, id peer.ID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns[id])
}
