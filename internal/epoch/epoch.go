// Package epoch says which founding of a swarm's group of SNs a node follows. The first group is of epoch 1. When most of its SNs are
// lost for good an operator founds it anew from what one of them has: that is a recovery, and the next epoch. A node pins the epoch as
// it pins the swarm, and follows a newer one only with the operator's signature.
package epoch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
)

// digestLen is how many hex digits of a recovery's digest a pin holds: as many as fit where a swarm is named.
const digestLen = 24

// Pin is the swarm that a node belongs to, and the founding of its group of SNs that it follows. The zero value is no swarm.
type Pin struct {
	SwarmID string
	Epoch   uint64 // 0 in a Pin of the first epoch
	Digest  string // of the recovery, its first 24 hex digits; empty in the first epoch
}

// First is the pin of a swarm whose group was never founded anew.
func First(swarmID string) Pin { return Pin{SwarmID: swarmID} }

// Of is the pin of a swarm with these recoveries, the newest last.
func Of(swarmID string, recoveries []ledger.Recovery) Pin {
	if len(recoveries) == 0 || swarmID == "" {
		return First(swarmID)
	}
	return pinOf(recoveries[len(recoveries)-1])
}

func pinOf(r ledger.Recovery) Pin {
	return Pin{SwarmID: r.SwarmID, Epoch: r.Epoch, Digest: r.Digest()[:digestLen]}
}

// Number is the epoch, from 1.
func (p Pin) Number() uint64 { return max(p.Epoch, 1) }

// String is how nodes name their swarm to each other: the swarm ID alone in the first epoch, so that those who know no epochs say and
// understand the same; then with epoch and digest behind it, at most 64 bytes.
func (p Pin) String() string {
	if p.Epoch <= 1 {
		return p.SwarmID
	}
	return p.SwarmID + "." + strconv.FormatUint(p.Epoch, 10) + "." + p.Digest
}

// Parse reads what String wrote. Whether the swarm ID is valid it leaves to who pins it.
func Parse(s string) (Pin, error) {
	id, rest, later := strings.Cut(s, ".")
	if id == "" || len(s) > 64 {
		return Pin{}, fmt.Errorf("%.80q names no swarm", s)
	}
	if !later {
		return First(id), nil
	}
	number, digest, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	p := Pin{SwarmID: id, Epoch: n, Digest: digest}
	if err != nil || n < 2 || n > ledger.MaxEpoch || len(digest) != digestLen || strings.Trim(digest, "0123456789abcdef") != "" || p.String() != s {
		return Pin{}, fmt.Errorf("%.80q names no epoch of a swarm", s)
	}
	return p, nil
}

// Relation is how another node's swarm relates to ours.
type Relation int

// The relations.
const (
	Same    Relation = iota
	Other            // another swarm
	Newer            // ours, in a later epoch
	Older            // ours, in an earlier epoch
	Another          // ours, in the same epoch by another recovery
)

// Compare says how the swarm that another node names relates to ours.
func (p Pin) Compare(theirs string) Relation {
	if p.String() == theirs {
		return Same
	}
	q, err := Parse(theirs)
	switch {
	case err != nil || q.SwarmID != p.SwarmID:
		return Other
	case q.Number() > p.Number():
		return Newer
	case q.Number() < p.Number():
		return Older
	}
	return Another
}

// Differ says in words how the swarm that another node names differs from ours.
func (p Pin) Differ(theirs string) string {
	q, _ := Parse(theirs)
	switch p.Compare(theirs) {
	case Newer:
		return fmt.Sprintf("it is of epoch %d of swarm %s, which was recovered; this node follows epoch %d", q.Number(), p.SwarmID, p.Number())
	case Older:
		return fmt.Sprintf("it is of epoch %d of swarm %s, which was recovered since as epoch %d", q.Number(), p.SwarmID, p.Number())
	case Another:
		return fmt.Sprintf("it is of another recovery of swarm %s to epoch %d than the one that this node follows", p.SwarmID, p.Number())
	}
	return fmt.Sprintf("it belongs to swarm %.64q, expected %q", theirs, p.SwarmID)
}

// ErrUnproven says that a recovery is not one that an operator of the swarm has signed, or not one that follows on the epoch that is
// pinned.
var ErrUnproven = errors.New("the recovery is not proven")

// Follow returns the pin after the recoveries, the newest last, that an SN shows: an operator's SVID, as this node's own bundle accepts
// it, must have signed each that follows on the pinned one, up to the newest. Errors wrap ErrUnproven.
func Follow(from Pin, recoveries []ledger.Recovery, source identity.Source) (Pin, error) {
	at := from
	for i, r := range recoveries {
		if r.Epoch <= from.Number() {
			if i == len(recoveries)-1 || r.Epoch == from.Number() && pinOf(r) != from {
				return from, fmt.Errorf("%w: it is not a recovery from epoch %d that this node knows", ErrUnproven, from.Number())
			}
			continue
		}
		if r.SwarmID != from.SwarmID || r.Epoch != at.Number()+1 || r.Epoch > ledger.MaxEpoch {
			return from, fmt.Errorf("%w: epoch %d does not follow on epoch %d", ErrUnproven, r.Epoch, at.Number())
		}
		if at.Epoch > 1 && (len(r.Previous) < digestLen || r.Previous[:digestLen] != at.Digest) || at.Epoch <= 1 && r.Previous != "" {
			return from, fmt.Errorf("%w: epoch %d follows on another epoch %d than this node knows", ErrUnproven, r.Epoch, at.Number())
		}
		if err := Prove(r, source); err != nil {
			return from, err
		}
		at = pinOf(r)
	}
	if at == from {
		return from, fmt.Errorf("%w: nothing is shown of it", ErrUnproven)
	}
	return at, nil
}

// Prove holds a recovery to its signature: by the key of an SVID of the role swci, which authorities that source trusts now have
// signed, and which was valid when the operator asked. Errors wrap ErrUnproven.
func Prove(r ledger.Recovery, source identity.Source) error {
	chain, err := identity.ParseChain(r.Chain)
	if err != nil {
		return fmt.Errorf("%w: its SVID: %w", ErrUnproven, err)
	}
	proven, err := identity.VerifyChainAt(source, chain, time.UnixMilli(r.AskedMS))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	id, err := identity.ParseIDString(proven.String())
	if err != nil || id.Role() != identity.RoleSWCI || proven.String() != r.By {
		return fmt.Errorf("%w: %s is not the operator that it names", ErrUnproven, proven)
	}
	if err := identity.VerifySVIDSignature(chain[0], identity.RecoveryMessage(r.Statement()), r.Signature); err != nil {
		return fmt.Errorf("%w: the key of %s did not sign it", ErrUnproven, proven)
	}
	return nil
}
