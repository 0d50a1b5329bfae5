package admission

import (
	"context"
	"fmt"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/p2p"
)

// Bans are the node keys that are shut out, as an SL knows them from the answers to its heartbeats. The zero value knows
// none. Safe for concurrent use.
type Bans struct {
	// Cut, if given, is called with the peer ID of each key when it is found banned, to end its connections. Set it before
	// use. It must not block.
	Cut func(peerID string)

	mu     sync.Mutex
	digest string
	ids    map[string]bool
}

// Seen returns the digest of the list that was taken last.
func (b *Bans) Seen() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.digest
}

// maxDigest bounds a digest that an SN gives and heartbeats repeat, in bytes: twice that of 64 hexadecimal digits.
const maxDigest = 128

// Take takes the list of all bans, unless its digest shows that it is the one of before. Longer ones than a swarm can have
// are cut.
func (b *Bans) Take(digest string, peerIDs []string) {
	if len(digest) > maxDigest {
		digest = "" // SNs that tell the truth would take no report that repeats it
	}
	b.mu.Lock()
	if digest == b.digest {
		b.mu.Unlock()
		return
	}
	old := b.ids
	b.digest, b.ids = digest, map[string]bool{}
	var fresh []string
	for _, id := range peerIDs[:min(len(peerIDs), state.MaxBans)] {
		if b.ids[id] = true; !old[id] {
			fresh = append(fresh, id)
		}
	}
	b.mu.Unlock()
	for _, id := range fresh {
		if b.Cut != nil {
			b.Cut(id)
		}
	}
}

// Check returns why a node key is refused, nil if it is not.
func (b *Bans) Check(peerID string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ids[peerID] {
		return nil
	}
	return fmt.Errorf("node key %s is banned from the swarm; an operator may lift it: swarmctl unban node %s", peerID, peerID)
}

// Refuse is Check for a host.
func (b *Bans) Refuse(id peer.ID) error { return b.Check(id.String()) }

// CutFrom returns what ends the connections of a host with whoever gets banned.
func CutFrom(host p2p.Network) func(peerID string) {
	return func(peerID string) {
		if id, err := peer.Decode(peerID); err == nil {
			host.Disconnect(id)
		}
	}
}

// CutBanned has an SN cut the connections of whoever gets banned, until ctx ends. New ones are refused by the host.
func CutBanned(ctx context.Context, group *consensus.Group, host p2p.Network) {
	cut := CutFrom(host)
	known := map[string]bool{}
	for {
		changed := group.Changed()
		now := map[string]bool{}
		for _, id := range group.View().BannedPeers() {
			if now[id] = true; !known[id] {
				cut(id)
			}
		}
		known = now
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// IsSN reports whether a node key is that of an SN which is registered and not banned.
func IsSN(view *state.State, peerID string) bool {
	n := view.NodeOfKey(peerID)
	return n != nil && n.Role == naming.RoleSN && view.Banned(peerID) == nil
}
