package p2p

import (
	"io"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"

	"github.com/swarmd/swarmd/identity"
)

// Connections returns how many connections the host has with the peer.
func Connections(h *Host, id peer.ID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns[id])
}

// Expiry returns when the host's newest connection with the peer ends unless the peer re-authenticates.
func Expiry(h *Host, id peer.ID) time.Time {
	c := newest(h, id)
	if c == nil {
		return time.Time{}
	}
	c.life.mu.Lock()
	defer c.life.mu.Unlock()
	return c.life.expires
}

func newest(h *Host, id peer.ID) *conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.conns[id]
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// Binding returns what a proof on the host's newest connection with the peer is bound to.
func Binding(h *Host, id peer.ID) (exporter []byte, us byte) {
	c := newest(h, id)
	return c.exporter, byte(c.us)
}

// ReauthMessage is what a proof signs.
func ReauthMessage(exporter []byte, from byte, nonce, leaf []byte) []byte {
	return reauthMessage(exporter, side(from), nonce, leaf)
}

// MarshalProof is a holder's answer.
func MarshalProof(chain [][]byte, signature []byte) ([]byte, error) {
	return proof{chain: chain, signature: signature}.marshal()
}

// ReadVerdict reads a verdict.
func ReadVerdict(r io.Reader) error { return readVerdict(r) }

// OtherSide is the other end of a connection.
func OtherSide(s byte) byte { return byte(side(s).other()) }

// NewSecurity returns the security transport alone.
func NewSecurity(key crypto.PrivKey, source identity.Source, domains identity.Domains) (sec.SecureTransport, error) {
	id, err := identity.PeerID(key)
	return &transport{key: key, local: id, source: source, domains: domains, swarmID: func() string { return "" }}, err
}
