// Package backup is the format of a backup of the SNs: the swarm's state at one index of the log, and the ledger up to just there. It
// writes one, and reads one back with everything in it checked.
//
// A backup is one file:
//
//	swarmd backup 1                      a line that names format and version
//	{"swarm_id":"…","index":123,…}       a line of JSON: Header
//	gzip of: the state, as a raft snapshot has it, then the ledger's lines
//	64 hex digits and a line feed        SHA-256 of all bytes before
//
// So head -n 2 shows what a file is, and (head -c -65 FILE | sha256sum; tail -c 65 FILE) that it is whole. The digest finds damage, it is
// no signature: who can write the file can write the digest too. It holds no private key and no token, but hashes of tokens, which have 256
// random bits.
package backup

import (
	"errors"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

const (
	magic   = "swarmd backup "
	version = "1"
	// MaxHeader bounds the line of the header, in bytes.
	MaxHeader = 1 << 20
	// trailer is the length of the digest and its line feed.
	trailer = 65
	// maxIndex bounds the log index: no log gets there, and one that begins behind it can be counted on.
	maxIndex = 1 << 62
	// indexBytes is the length of the log index that a snapshot begins with.
	indexBytes = 8
)

// Errors of files that are no backup to restore from; errors.Is.
var (
	// ErrNotBackup reports a file that does not begin as a backup does.
	ErrNotBackup = errors.New("not a backup of an SN")
	// ErrVersion reports a backup of another version of the format.
	ErrVersion = errors.New("a backup in a format that this program does not know")
	// ErrCutOff reports a file that ends too early.
	ErrCutOff = errors.New("the backup is cut off")
	// ErrDamaged reports a file that is not what was written.
	ErrDamaged = errors.New("the backup is damaged")
)

// Header says what a backup is.
type Header struct {
	SwarmID string `json:"swarm_id"`
	// AtMS is when the backup was made, Unix milliseconds by the clock of the SN.
	AtMS int64 `json:"at_ms"`
	// Index is the log index of the last command in the state.
	Index uint64 `json:"index"`
	// Confirmed: a majority of the SNs has told, when the backup was begun, that nothing committed was missing in it.
	Confirmed bool `json:"confirmed"`
	// State is the length of the state, in bytes, before compression.
	State uint64 `json:"state_bytes"`
	// Ledger is the ledger's end, which the state names too.
	Ledger ledger.Head `json:"ledger"`
	Origin Origin      `json:"origin"`
}

// Origin is where a backup comes from. Nothing of it is needed to restore the state.
type Origin struct {
	SN      string `json:"sn"` // name of the SN that wrote it
	Version string `json:"version,omitempty"`
	// Options are those that the SN was started with, without any that are secret.
	Options map[string]string `json:"options,omitempty"`
	// Bundles are the CA certificates that the SN trusted, DER, by trust domain.
	Bundles map[string][][]byte `json:"bundles,omitempty"`
}

// Backup is what was read.
type Backup struct {
	Header Header
	State  *state.State
}
