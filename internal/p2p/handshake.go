package p2p

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/crypto/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/swarmd/swarmd/internal/text"
)

// After TLS both sides say who they are beyond their SVID, the client first:
//
//	client                          server
//	hello  ------------------------>
//	       <------------------------ hello, verdict
//	verdict ----------------------->
//
// A hello holds swarm ID, node public key, and the node key's signature over the connection's TLS exporter value, so
// it is good for this connection and this side only. A verdict says yes, or why not, so that a refused operator reads
// the reason on his own side.
const (
	helloVersion  = 1
	maxHello      = 512
	maxReason     = 512
	maxSwarmID    = 64
	exporterLabel = "EXPORTER-swarm-p2p-binding-1"
	exporterLen   = 32
)

// side tells the two ends of a connection apart in what they sign: else a hello could be sent back to its maker.
type side byte

const (
	clientSide side = 'c'
	serverSide side = 's'
)

func (s side) other() side {
	if s == clientSide {
		return serverSide
	}
	return clientSide
}

type hello struct {
	swarmID   string
	publicKey []byte // protobuf form of libp2p
	signature []byte
}

// bindingMessage is what the node key signs.
func bindingMessage(exporter []byte, from side, swarmID string, publicKey []byte) []byte {
	b := []byte("swarm p2p binding 1\x00")
	b = append(b, byte(from))
	for _, f := range [][]byte{exporter, []byte(swarmID), publicKey} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(f)))
		b = append(b, f...)
	}
	return b
}

func newHello(key crypto.PrivKey, exporter []byte, from side, swarmID string) (hello, error) {
	if len(swarmID) > maxSwarmID {
		return hello{}, fmt.Errorf("swarm ID has %d bytes, at most %d are allowed", len(swarmID), maxSwarmID)
	}
	pub, err := crypto.MarshalPublicKey(key.GetPublic())
	if err != nil {
		return hello{}, fmt.Errorf("marshal node key: %w", err)
	}
	sig, err := key.Sign(bindingMessage(exporter, from, swarmID, pub))
	if err != nil {
		return hello{}, fmt.Errorf("sign with node key: %w", err)
	}
	return hello{swarmID: swarmID, publicKey: pub, signature: sig}, nil
}

// verify returns the node key that made the hello for this connection and side.
func (h hello) verify(exporter []byte, from side) (crypto.PubKey, peer.ID, error) {
	pub, err := crypto.UnmarshalPublicKey(h.publicKey)
	if err != nil {
		return nil, "", fmt.Errorf("node key of the peer is malformed: %w", err)
	}
	if pub.Type() != pb.KeyType_Ed25519 {
		return nil, "", fmt.Errorf("node key of the peer is %s, not Ed25519", pub.Type())
	}
	ok, err := pub.Verify(bindingMessage(exporter, from, h.swarmID, h.publicKey), h.signature)
	if err != nil || !ok {
		return nil, "", errors.New("node key signature of the peer does not belong to this connection")
	}
	id, err := peer.IDFromPublicKey(pub)
	if err != nil {
		return nil, "", fmt.Errorf("derive peer ID: %w", err)
	}
	return pub, id, nil
}

func (h hello) marshal() []byte {
	body := []byte{helloVersion}
	for _, f := range [][]byte{[]byte(h.swarmID), h.publicKey, h.signature} {
		body = binary.BigEndian.AppendUint16(body, uint16(len(f)))
		body = append(body, f...)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...)
}

func readHello(r io.Reader) (hello, error) {
	body, err := readShort(r, maxHello)
	if err != nil {
		return hello{}, fmt.Errorf("read hello: %w", err)
	}
	return parseHello(body)
}

func parseHello(body []byte) (hello, error) {
	if len(body) == 0 || body[0] != helloVersion {
		return hello{}, errors.New("parse hello: unknown version: the peer runs another release of swarmd")
	}
	rest := body[1:]
	var fields [3][]byte
	for i := range fields {
		if len(rest) < 2 {
			return hello{}, errors.New("parse hello: cut short")
		}
		n := int(binary.BigEndian.Uint16(rest))
		if rest = rest[2:]; n > len(rest) {
			return hello{}, errors.New("parse hello: cut short")
		}
		fields[i], rest = rest[:n], rest[n:]
	}
	if len(rest) != 0 {
		return hello{}, errors.New("parse hello: trailing bytes")
	}
	if len(fields[0]) > maxSwarmID || !text.Visible(string(fields[0])) {
		return hello{}, errors.New("parse hello: swarm ID is malformed")
	}
	return hello{swarmID: string(fields[0]), publicKey: fields[1], signature: fields[2]}, nil
}

// writeVerdict sends yes for nil, else why not.
func writeVerdict(w io.Writer, refusal error) error {
	_, err := w.Write(marshalVerdict(refusal))
	return err
}

func marshalVerdict(refusal error) []byte {
	if refusal == nil {
		return []byte{0, 0}
	}
	reason := worded(refusal.Error())
	if reason == "" {
		reason = "no reason given"
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(reason))), reason...)
}

// readVerdict returns nil for yes, a *RefusedError for no.
func readVerdict(r io.Reader) error {
	reason, err := readShort(r, maxReason)
	if err != nil {
		return fmt.Errorf("read verdict: %w", err)
	}
	if len(reason) > 0 {
		return &RefusedError{Reason: worded(string(reason))}
	}
	return nil
}

func readShort(r io.Reader, limit int) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n > limit {
		return nil, fmt.Errorf("message of %d bytes, at most %d are allowed", n, limit)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	return body, nil
}

func exporterOf(c *tls.Conn) ([]byte, error) {
	state := c.ConnectionState()
	return state.ExportKeyingMaterial(exporterLabel, nil, exporterLen)
}

// worded makes a peer's words safe to print and log: one line, valid UTF-8, bounded.
func worded(s string) string { return strings.TrimSpace(text.Cut(text.Printable(s, ' '), maxReason)) }
