package consensus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/swarmd/swarmd/consensus/state"
)

// JoinRequest is what an SN that wants to be a server sends.
type JoinRequest struct {
	// Name and Address are the server's, as in Config.
	Name    string `json:"name"`
	Address string `json:"address"`
	// SwarmID is the swarm that the SN belongs to already; empty if it is new.
	SwarmID string `json:"swarm_id,omitempty"`
	// Register is committed before the server is added; its node must have the same name, the same peer ID and role sn.
	Register state.RegisterNode `json:"register"`

	// Nonce is the leader's; without one the request asks for it. The signatures of the node key and of the SVID's key, whose
	// chain Register holds, are over it and all of the above. Whoever passes the request on can't change it or make one.
	Nonce         []byte `json:"nonce,omitempty"`
	NodeSignature []byte `json:"node_signature,omitempty"`
	SVIDSignature []byte `json:"svid_signature,omitempty"`

	// Claim admits an SN that was invited. It is signed by itself, for this name and node key in this swarm; nil: the SN was not invited.
	Claim *Claim `json:"claim,omitempty"`
}

// Claim shows that an SN has the secret of an invitation.
type Claim struct {
	Key       []byte `json:"key"`       // public, of the invitation
	Signature []byte `json:"signature"` // as claim.Sign makes it
}

// Prover proves and checks joins, since this package knows no keys. Its methods are safe for concurrent use.
type Prover interface {
	// Prove returns the request of this node, signed, with a new registration: the proof of an old one expires.
	Prove(JoinRequest) (JoinRequest, error)
	// Check returns who made a request for a swarm, as its signatures prove it.
	Check(swarmID string, r JoinRequest) (Peer, error)
}

// JoinResponse is the answer to a JoinRequest.
type JoinResponse struct {
	// Refused is set instead of everything else.
	Refused *JoinRefusal `json:"refused,omitempty"`
	// Nonce is what the request is to be signed over; SwarmID and Servers come with it.
	Nonce []byte `json:"nonce,omitempty"`
	// SwarmID is the swarm joined.
	SwarmID string `json:"swarm_id,omitempty"`
	// Voter reports whether the server votes already; it may be made a voter later.
	Voter bool `json:"voter,omitempty"`
	// Index is the log index of the registration.
	Index uint64 `json:"index,omitempty"`
	// Servers are the addresses of the configuration.
	Servers []string `json:"servers,omitempty"`
}

// JoinRefusal says why an SN was not let in.
type JoinRefusal struct {
	// Reason is a stable word; state's reasons are used where the state refused.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Retry tells that the same request may succeed later.
	Retry bool `json:"retry,omitempty"`
}

// Error returns the message and the remedy.
func (r *JoinRefusal) Error() string {
	if r.Remedy == "" {
		return r.Message
	}
	return r.Message + ": " + r.Remedy
}

// Unwrap makes a final refusal an ErrRefused.
func (r *JoinRefusal) Unwrap() error {
	if r.Retry {
		return ErrNoLeader
	}
	return ErrRefused
}

// joinPassed is a join on its way from a follower to the leader.
type joinPassed struct {
	Peer    Peer        `json:"peer"`
	Request JoinRequest `json:"request"`
}

// exactly decodes one JSON value without unknown fields.
func exactly(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errFrame
	}
	return nil
}

// EncodeJoin writes a request as the join protocol carries it: its length in four bytes and JSON.
func EncodeJoin(w io.Writer, r JoinRequest) error { return writeJSON(w, maxJoin, r) }

// DecodeJoin reads what EncodeJoin wrote, at most 256 KiB.
func DecodeJoin(r io.Reader) (JoinRequest, error) {
	b, err := readSized(r, maxJoin)
	if err != nil {
		return JoinRequest{}, err
	}
	var j JoinRequest
	if err := exactly(b, &j); err != nil {
		return JoinRequest{}, err
	}
	return j, nil
}
