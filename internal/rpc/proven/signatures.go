package proven

import (
	"sync"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/merge"
)

// maxSignatures is how many signatures are remembered: of some attempts of many participants.
const maxSignatures = 1 << 14

// Signatures remembers signatures that were found valid, as all participants of an attempt report the same ones of its owners, and each
// heartbeat repeats what the one before has said. The zero value knows none. Safe for concurrent use.
type Signatures struct {
	mu   sync.Mutex
	good map[merge.Digest]struct{}
}

// Valid reports whether a node key has signed a message.
func (s *Signatures) Valid(peerID string, msg, sig []byte) bool {
	key := merge.Combine([]merge.Digest{merge.Sum([]byte(peerID)), merge.Sum(msg), merge.Sum(sig)})
	s.mu.Lock()
	_, known := s.good[key]
	s.mu.Unlock()
	if known {
		return true
	}
	if identity.VerifyNodeSignature(peerID, msg, sig) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.good) >= maxSignatures || s.good == nil {
		s.good = map[merge.Digest]struct{}{}
	}
	s.good[key] = struct{}{}
	return true
}
