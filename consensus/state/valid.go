package state

import (
	"unicode/utf8"

	"github.com/swarmd/swarmd/identity/naming"
)

// Bounds of what a command may carry. They keep the state small whatever is proposed.
const (
	MaxLayoutBytes = 1 << 20
	MaxMinPeers    = 1024
	MaxWeight      = 100
	MaxEndReason   = 256 // encoded
	// MaxPlannedWeight bounds the weights of a plan under a cap, which are scaled up so that the cap rounds little.
	MaxPlannedWeight = 10_000
	// MaxSamples bounds weights that are numbers of samples: so large that nobody has more, so small that sums and shares of those of all
	// participants fit in 64 bits.
	MaxSamples   = 1 << 30
	MaxIsolation = 256 // of Session.Isolation
	MaxProgram   = 256 // of OpenSession.Program
	MaxRequired  = 64  // nodes that rules require
	MaxWaitMS    = 7 * 24 * 3600 * 1000
	MaxEnded     = 256 // ended sessions that a contract keeps, besides those that count as closed

	MaxParticipants = MaxMinPeers // of a round: so many sessions of a contract may be open

	maxShort     = 512
	maxPeerID    = 128 // those of Ed25519 keys, which alone are accepted, have 52
	maxSPIFFEID  = 2048
	maxLeaves    = 1 << 34
	maxInterval  = 1 << 30
	maxRecent    = 16
	maxTokens    = 2
	maxContracts = 4096
	maxNodes     = 4096
)

// validPeerID reports whether id can be a libp2p peer ID, in either of its text forms.
func validPeerID(id string) bool {
	for i := range len(id) {
		if b := id[i]; !naming.Alphanumeric(b) && b != '_' && b != '-' {
			return false
		}
	}
	return id != "" && len(id) <= maxPeerID
}

// validHex reports whether s is exactly n lower case hex digits.
func validHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if b := s[i]; (b < '0' || b > '9') && (b < 'a' || b > 'f') {
			return false
		}
	}
	return true
}

// clip bounds a text of a message without cutting a character in two.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
