package logs

import (
	"bytes"
	"crypto/hpke"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
)

// MaxSealed bounds a chunk.
const MaxSealed = 40 << 10

// MaxOpening bounds an opening, in bytes.
const MaxOpening = 24 << 10

func kem() hpke.KEM   { return hpke.MLKEM768X25519() }
func kdf() hpke.KDF   { return hpke.HKDFSHA256() }
func aead() hpke.AEAD { return hpke.AES256GCM() }

// info binds what is sealed to the request.
func info(id []byte) []byte { return append([]byte("swarm logs 1 "), id...) }

// sealer seals chunks for the operator that has made a request.
type sealer struct {
	sender  *hpke.Sender
	opening *swarmv1.LogOpening
	number  uint64 // of the last chunk
}

// newSealer begins with a request, for a node.
func newSealer(source identity.Source, id, key []byte) (*sealer, error) {
	public, err := kem().NewPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("the operator's key: %w", err)
	}
	encapsulated, sender, err := hpke.NewSender(public, kdf(), aead(), info(id))
	if err != nil {
		return nil, fmt.Errorf("seal a log: %w", err)
	}
	svid, err := source.GetX509SVID()
	if err != nil {
		return nil, fmt.Errorf("sign a log: get own SVID: %w", err)
	}
	o := &swarmv1.LogOpening{Encapsulated: encapsulated, Chain: identity.RawChain(svid)[:min(len(svid.Certificates), maxChain)]}
	if o.Signature, err = identity.SignWithSVID(svid, identity.LogsMessage(id, encapsulated)); err != nil {
		return nil, err
	}
	return &sealer{sender: sender, opening: o}, nil
}

// seal makes the next chunk.
func (s *sealer) seal(t *swarmv1.LogText) (*swarmv1.LogChunk, error) {
	plain, err := proto.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("seal a log: %w", err)
	}
	sealed, err := s.sender.Seal(nil, plain)
	if err != nil {
		return nil, fmt.Errorf("seal a log: %w", err)
	}
	s.number++
	return &swarmv1.LogChunk{Number: s.number, Sealed: sealed}, nil
}

// Reader opens for an operator what a host has sealed for one request.
type Reader struct {
	Source  identity.Source
	Domains identity.Domains
	Order   *swarmv1.LogOrder
	Part    *swarmv1.LogPart
	Role    identity.Role // of the node that was asked

	id        []byte
	key       hpke.PrivateKey
	opening   []byte // encapsulated key; nil: nothing was opened yet
	recipient *hpke.Recipient
	by        identity.ID
	have      uint64
}

// Ask fills in a request, which part begins, and signs it. The caller has set all that it knows.
func (r *Reader) Ask(swarmID string, expiresMS int64) (err error) {
	if r.key, err = kem().GenerateKey(); err != nil {
		return fmt.Errorf("make a key for the log: %w", err)
	}
	r.Part.Key, r.Part.ExpiresUnixMs = r.key.PublicKey().Bytes(), expiresMS
	if r.Order, err = Sign(r.Source, swarmID, r.Part); err != nil {
		return err
	}
	r.id = ID(r.Order, swarmID)
	return nil
}

// Have is the number of the last chunk that was opened.
func (r *Reader) Have() uint64 { return r.have }

// By is who has sealed it; zero before the first chunk.
func (r *Reader) By() identity.ID { return r.by }

// errAnother says that another process answers than the one that began.
var errAnother = errors.New("the host was restarted meanwhile: ask again")

// Open opens what an SN has brought. What was opened before is left out; a gap is an error.
func (r *Reader) Open(opening *swarmv1.LogOpening, chunks []*swarmv1.LogChunk) (all []*swarmv1.LogText, err error) {
	if opening == nil {
		return nil, nil
	}
	if err := r.begin(opening); err != nil {
		return nil, err
	}
	for _, c := range chunks {
		if c.GetNumber() <= r.have {
			continue
		}
		if c.GetNumber() != r.have+1 || len(c.GetSealed()) > MaxSealed {
			return all, fmt.Errorf("the SN leaves out parts of the log: after part %d comes part %d", r.have, c.GetNumber())
		}
		plain, err := r.recipient.Open(nil, c.GetSealed())
		if err != nil {
			return all, errors.New("part of the log was changed on its way")
		}
		t := &swarmv1.LogText{}
		if err := proto.Unmarshal(plain, t); err != nil {
			return all, errors.New("part of the log can't be read")
		}
		r.have++
		all = append(all, t)
	}
	return all, nil
}

// begin proves who has sealed the log.
func (r *Reader) begin(o *swarmv1.LogOpening) error {
	if r.opening != nil {
		if !bytes.Equal(r.opening, o.GetEncapsulated()) {
			return errAnother
		}
		return nil
	}
	chain, err := identity.ParseChain(o.GetChain())
	if err != nil {
		return fmt.Errorf("the host's certificate: %w", err)
	}
	proven, err := identity.VerifyChain(r.Source, chain)
	if err != nil {
		return fmt.Errorf("the host's certificate: %w", err)
	}
	by, err := r.Domains.Check(proven, r.Role)
	if err != nil {
		return err
	}
	if !by.MaySpeakFor(r.Part.GetNode()) {
		return fmt.Errorf("%s answers for %s: what it says is not shown", by, r.Part.GetNode())
	}
	if err := identity.VerifySVIDSignature(chain[0], identity.LogsMessage(r.id, o.GetEncapsulated()), o.GetSignature()); err != nil {
		return fmt.Errorf("%s has not signed what it is said to have: %w", by, err)
	}
	if r.recipient, err = hpke.NewRecipient(o.GetEncapsulated(), r.key, kdf(), aead(), info(r.id)); err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	r.opening, r.by = o.GetEncapsulated(), by
	return nil
}
