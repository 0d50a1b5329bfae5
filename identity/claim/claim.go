// Package claim is how an SN that was invited proves it: the line that invites it holds a secret, from which a key pair follows; the swarm
// keeps the public key, and the private one signs the SN's node key once. It is pure. The secret itself never reaches an SN of the swarm.
package claim

import (
	"crypto/ed25519"
	"encoding/binary"
)

// Bounds in bytes.
const (
	SecretSize    = ed25519.SeedSize // of a secret, all of them random
	KeySize       = ed25519.PublicKeySize
	SignatureSize = ed25519.SignatureSize
)

// KeyOf returns the public key of a secret of SecretSize bytes; of any other it returns nil.
func KeyOf(secret []byte) []byte {
	if len(secret) != SecretSize {
		return nil
	}
	key := ed25519.NewKeyFromSeed(secret)
	return key[len(key)-KeySize:]
}

// Sign claims an invitation to a swarm, for the SN of this name with this node key (its libp2p peer ID), and for no other. It returns nil
// if the secret does not have SecretSize bytes.
func Sign(secret []byte, swarmID, node, peerID string) []byte {
	if len(secret) != SecretSize {
		return nil
	}
	return ed25519.Sign(ed25519.NewKeyFromSeed(secret), message(swarmID, node, peerID))
}

// Verify reports whether the secret of a public key has signed such a claim.
func Verify(key []byte, swarmID, node, peerID string, signature []byte) bool {
	return len(key) == KeySize && ed25519.Verify(key, message(swarmID, node, peerID), signature)
}

// message has the length of each field before it, so that no two claims give the same bytes.
func message(fields ...string) []byte {
	b := []byte("swarm invitation claim 1\n")
	for _, f := range fields {
		b = binary.BigEndian.AppendUint32(b, uint32(len(f))) //nolint:gosec // lengths of bounded fields
		b = append(b, f...)
	}
	return b
}
