package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// ErrBadSignature reports a signature that its message and key do not make.
var ErrBadSignature = errors.New("signature does not match")

// RegistrationMessage is what a node key signs to register: a server's nonce and the TLS exporter value of the very
// connection, so that it can not be replayed, and the name that the node wants.
func RegistrationMessage(nonce, exporter []byte, swarmID, name string, role Role, peerID string) []byte {
	return message("swarm registration 1", nonce, exporter, []byte(swarmID), []byte(name), []byte(role), []byte(peerID))
}

// JoinMessage is what an SN that joins signs with its node key and with its SVID's: the leader's nonce, so that it can not be
// replayed, and all that it asks for. It holds nothing of a connection, since other SNs pass it on.
func JoinMessage(nonce []byte, swarmID, name, address string, registration []byte) []byte {
	return message("swarm join 1", nonce, []byte(swarmID), []byte(name), []byte(address), registration)
}

// OwnershipMessage is what an SVID's key signs: that this swarm, name and node key belong to its SPIFFE ID. It holds
// no nonce, since it stands in the ledger for later proof.
func OwnershipMessage(swarmID, name, peerID string) []byte {
	return message("swarm ownership 1", []byte(swarmID), []byte(name), []byte(peerID))
}

// AddressMessage is what a host's SVID key signs: by which address other hosts reach the node of this name. It counts for as long as the SVID.
func AddressMessage(swarmID, name, host string) []byte {
	return message("swarm address 1", []byte(swarmID), []byte(name), []byte(host))
}

// Order is a change of the swarm that an operator asks for.
type Order struct {
	SwarmID string
	Method  string // of the API, such as CreateContract
	Request []byte // its request, in the form in which it stands in the ledger
	Nonce   []byte // the raft leader's, so that it can not be asked for a second time
	// Ledger is the hash of the ledger's last record when the nonce was given, in hex, and Length that record's number: what
	// the operator acts upon.
	Ledger  string
	Length  uint64
	AskedMS int64 // Unix milliseconds
}

// OrderMessage is what an operator's SVID key signs.
func OrderMessage(o Order) []byte {
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	return message("swarm order 1", []byte(o.SwarmID), []byte(o.Method), o.Request, o.Nonce, []byte(o.Ledger), number(o.Length), number(uint64(o.AskedMS))) //nolint:gosec // its bits
}

// Fetch is a model that a node lets out to an operator.
type Fetch struct {
	SwarmID, Node, Contract string
	Run, Round              uint64
	Model                   string // hex digest
	By                      string // SPIFFE ID of the operator
	AtMS                    int64  // Unix milliseconds by the node's clock
}

// FetchMessage is what the node's key signs.
func FetchMessage(f Fetch) []byte {
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	return message("swarm fetch 1", []byte(f.SwarmID), []byte(f.Node), []byte(f.Contract), number(f.Run), number(f.Round), []byte(f.Model), []byte(f.By), number(uint64(f.AtMS))) //nolint:gosec // its bits
}

// MemberState is what has become of a host's part in an assignment.
type MemberState struct {
	SwarmID, Node, Assignment string
	Epoch, Member             uint32
	State                     string
	Code                      int32 // exit code
	// Group is the one of the assignment that the member is in, and Peers are for how many it counts there. Hosts of before signed neither.
	Group string
	Peers uint32
	// Asks is what the host asks of a job; empty: nothing.
	Asks string
}

// MemberMessage is what the host's node key signs of it, for the ledger: it holds no nonce, as nothing that was once true of a member of an
// epoch becomes untrue. Without a group, or without what is asked, it is the message of before.
func MemberMessage(m MemberState) []byte {
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	domain := "swarm member 1"
	fields := [][]byte{[]byte(m.SwarmID), []byte(m.Node), []byte(m.Assignment), number(m.Epoch), number(m.Member), []byte(m.State), number(uint32(m.Code))} //nolint:gosec // its bits
	if m.Group != "" {
		domain, fields = "swarm member 2", append(fields, []byte(m.Group), number(m.Peers))
	}
	if m.Asks != "" {
		domain, fields = "swarm member 3", append(fields[:7:7], []byte(m.Group), number(m.Peers), []byte(m.Asks))
	}
	return message(domain, fields...)
}

// MemberAddressMessage is what the host's node key signs: the address, an IP, that a member of an epoch of a job has in the job's network.
// It signs one in an epoch: two would both be good, and whoever passes them on would choose.
func MemberAddressMessage(swarmID, node, assignment string, epoch, member uint32, address string) []byte {
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	return message("swarm member address 1", []byte(swarmID), []byte(node), []byte(assignment), number(epoch), number(member), []byte(address))
}

// LogsMessage is what the SVID key of a node signs that hands a log out: that what is sealed with an encapsulated key of HPKE is its answer to
// an operator's request, which id stands for.
func LogsMessage(id, encapsulated []byte) []byte { return message("swarm logs 1", id, encapsulated) }

// RecoveryMessage is what an operator's SVID key signs to have the group of SNs founded anew: the ledger record's statement. It holds
// no nonce, since there is no leader to give one: the epoch in it makes it good once.
func RecoveryMessage(statement []byte) []byte { return message("swarm recovery 1", statement) }

// message joins a domain and fields with length prefixes: no two lists of fields give the same bytes.
func message(domain string, fields ...[]byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(domain)))
	b = append(b, domain...)
	for _, f := range fields {
		b = binary.BigEndian.AppendUint32(b, uint32(len(f)))
		b = append(b, f...)
	}
	return b
}

// SignWithSVID signs the message with the SVID's key: ECDSA (ASN.1) or RSA (PSS) over SHA-256, or Ed25519.
func SignWithSVID(svid *x509svid.SVID, msg []byte) ([]byte, error) {
	sum := sha256.Sum256(msg)
	var (
		sig []byte
		err error
	)
	switch svid.PrivateKey.Public().(type) {
	case *ecdsa.PublicKey:
		sig, err = svid.PrivateKey.Sign(rand.Reader, sum[:], crypto.SHA256)
	case *rsa.PublicKey:
		sig, err = svid.PrivateKey.Sign(rand.Reader, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256})
	case ed25519.PublicKey:
		sig, err = svid.PrivateKey.Sign(nil, msg, crypto.Hash(0))
	default:
		return nil, fmt.Errorf("sign with SVID: key type %T is not supported: use ECDSA, RSA or Ed25519", svid.PrivateKey.Public())
	}
	if err != nil {
		return nil, fmt.Errorf("sign with SVID: %w", err)
	}
	return sig, nil
}

// VerifySVIDSignature checks a signature of SignWithSVID against the leaf certificate's key. It does not verify the
// certificate: see VerifySVID. Errors wrap ErrBadSignature.
func VerifySVIDSignature(leaf *x509.Certificate, msg, sig []byte) error {
	sum := sha256.Sum256(msg)
	ok := false
	switch key := leaf.PublicKey.(type) {
	case *ecdsa.PublicKey:
		ok = ecdsa.VerifyASN1(key, sum[:], sig)
	case *rsa.PublicKey:
		ok = rsa.VerifyPSS(key, crypto.SHA256, sum[:], sig, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	case ed25519.PublicKey:
		ok = ed25519.Verify(key, msg, sig)
	default:
		return fmt.Errorf("verify SVID signature: key type %T is not supported: %w", leaf.PublicKey, ErrBadSignature)
	}
	if !ok {
		return fmt.Errorf("verify SVID signature: %w", ErrBadSignature)
	}
	return nil
}
