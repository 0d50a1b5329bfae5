package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// MaxEpoch is the last epoch that a swarm can have, so that it fits where a swarm is named.
const MaxEpoch = 999_999

// Recovery says that an operator founded the group of SNs anew from what one of them had. What the others had committed behind that
// is lost, and so are their places: they join as new nodes.
type Recovery struct {
	SwarmID   string  `json:"swarm_id"`
	Epoch     uint64  `json:"epoch"` // of the new group; the first group's is 1
	Node      string  `json:"node"`  // the SN that the group consists of
	PeerID    string  `json:"peer_id"`
	LastIndex uint64  `json:"last_index"` // of the raft log that it had
	Had       Witness `json:"had"`        // the ledger that it had
	// Previous is the digest of the recovery to the epoch before; empty for the first one.
	Previous string `json:"previous,omitempty"`
	By       string `json:"by"`       // SPIFFE ID of the operator
	AskedMS  int64  `json:"asked_ms"` // Unix milliseconds by the operator's clock

	Signature []byte   `json:"signature"` // by the SVID's key over identity.RecoveryMessage of the Statement
	Chain     [][]byte `json:"chain"`     // the SVID's certificates, DER, leaf first
}

// Kind implements Body.
func (Recovery) Kind() string { return "recovery" }

// Statement is what the operator signs: all of the record but the signature and its chain.
func (r Recovery) Statement() []byte {
	r.Signature, r.Chain = nil, nil
	b, err := json.Marshal(r)
	if err != nil { // nothing in it has no encoded form
		return nil
	}
	return b
}

// Digest tells one recovery from another, in hex; it does not depend on who carries it, or on the signature.
func (r Recovery) Digest() string {
	h := sha256.New()
	_, _ = h.Write([]byte("swarmd recovery 1\n")) // A hash never returns an error.
	_, _ = h.Write(r.Statement())
	return hex.EncodeToString(h.Sum(nil))
}
