package p2p

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/identity"
)

// ReauthProtocol is the protocol by which a side shows its new SVID on a connection that exists. Every Host serves it
// to every connected peer; Handle can't replace it. After the stream's usual consent:
//
//	holder of the new SVID          verifier
//	        <------------------------ nonce
//	chain, signature --------------->
//	        <------------------------ verdict
//
// The SVID's key signs exporter value and side of the connection, so the answer is good nowhere else, and the nonce, so
// it is good only now. The verifier then lets the connection live until the new SVID ends.
const ReauthProtocol = "/swarm/reauth/1"

const (
	reauthVersion = 1
	reauthDomain  = "swarm p2p re-authentication 1"
	nonceLen      = 32
	maxProofCerts = identity.MaxChain
	maxProofCert  = identity.MaxChainBytes
	maxProofSig   = 2 << 10
	maxProof      = 64 << 10 // of chain and signature together
	reauthTimeout = 5 * time.Second
)

// proof is a holder's answer to a nonce.
type proof struct {
	chain     [][]byte // DER, leaf first
	signature []byte
}

// reauthMessage is what the SVID's key signs. It has the form of all that SVID keys sign here: domain and fields with
// their lengths.
func reauthMessage(exporter []byte, from side, nonce, leaf []byte) []byte {
	sum := sha256.Sum256(leaf)
	var b []byte
	for _, f := range [][]byte{[]byte(reauthDomain), exporter, {byte(from)}, nonce, sum[:]} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(f)))
		b = append(b, f...)
	}
	return b
}

func newProof(svid *x509svid.SVID, exporter []byte, us side, nonce []byte) (proof, error) {
	chain := identity.RawChain(svid)
	sig, err := identity.SignWithSVID(svid, reauthMessage(exporter, us, nonce, chain[0]))
	if err != nil {
		return proof{}, err
	}
	return proof{chain: chain, signature: sig}, nil
}

func (p proof) marshal() ([]byte, error) {
	if len(p.chain) == 0 || len(p.chain) > maxProofCerts {
		return nil, fmt.Errorf("chain has %d certificates: want 1 to %d", len(p.chain), maxProofCerts)
	}
	b := []byte{reauthVersion, byte(len(p.chain))}
	for _, der := range p.chain {
		if len(der) > maxProofCert {
			return nil, fmt.Errorf("certificate of %d bytes: at most %d are allowed", len(der), maxProofCert)
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(der)))
		b = append(b, der...)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.signature)))
	if b = append(b, p.signature...); len(b) > maxProof {
		return nil, fmt.Errorf("chain and signature of %d bytes: at most %d are allowed", len(b), maxProof)
	}
	return b, nil
}

// parseProof keeps slices of b.
func parseProof(b []byte) (proof, error) {
	if len(b) < 2 || b[0] != reauthVersion {
		return proof{}, errors.New("parse proof: unknown version: the peer runs another release of swarmd")
	}
	n, rest := int(b[1]), b[2:]
	if n == 0 || n > maxProofCerts {
		return proof{}, fmt.Errorf("parse proof: %d certificates: want 1 to %d", n, maxProofCerts)
	}
	field := func(limit int) ([]byte, error) {
		if len(rest) < 2 {
			return nil, errors.New("parse proof: cut short")
		}
		size := int(binary.BigEndian.Uint16(rest))
		if size > limit {
			return nil, fmt.Errorf("parse proof: a field of %d bytes: at most %d are allowed", size, limit)
		}
		if rest = rest[2:]; size > len(rest) {
			return nil, errors.New("parse proof: cut short")
		}
		var f []byte
		f, rest = rest[:size], rest[size:]
		return f, nil
	}
	p := proof{chain: make([][]byte, n)}
	for i := range p.chain {
		var err error
		if p.chain[i], err = field(maxProofCert); err != nil {
			return proof{}, err
		}
	}
	var err error
	if p.signature, err = field(maxProofSig); err != nil {
		return proof{}, err
	}
	if len(rest) != 0 {
		return proof{}, errors.New("parse proof: trailing bytes")
	}
	return p, nil
}

// reauthenticate shows our new SVID to the connection's peer: two round trips. A *RefusedError is the peer's word.
func reauthenticate(ctx context.Context, c *conn, svid *x509svid.SVID) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reauthTimeout, fmt.Errorf("no answer within %s: %w", reauthTimeout, context.DeadlineExceeded))
	defer cancel()
	s, err := open(ctx, c, ReauthProtocol)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	defer func() { _ = s.Reset() }() // both sides are done, or the attempt failed
	var nonce [nonceLen]byte
	if _, err := io.ReadFull(s, nonce[:]); err != nil {
		return fmt.Errorf("read nonce: %w", err)
	}
	p, err := newProof(svid, c.exporter, c.us, nonce[:])
	if err != nil {
		return err
	}
	b, err := p.marshal()
	if err != nil {
		return err
	}
	if err := WriteFrame(s, b); err != nil {
		return err
	}
	return readVerdict(s)
}
