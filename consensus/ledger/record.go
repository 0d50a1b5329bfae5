package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Version is the version of records that this program writes and reads.
const Version = 1

// MaxRecord bounds a record's line, line feed included, in bytes.
const MaxRecord = 2 << 20

// domain begins what is hashed, so that no hash of another kind is one of a record's. With it a record's hash is
// (printf 'swarmd ledger 1\n'; sed -n 7p ledger.jsonl) | sha256sum.
const domain = "swarmd ledger 1\n"

// Errors of records; errors.Is.
var (
	// ErrMalformed reports bytes that are no record in its canonical form.
	ErrMalformed = errors.New("malformed record")
	// ErrChain reports a record that does not follow the one before it.
	ErrChain = errors.New("broken chain")
)

// None is the hash before the first record.
const None = "0000000000000000000000000000000000000000000000000000000000000000"

// Head is the end of a chain. The zero value is the head of an empty one.
type Head struct {
	Length uint64 `json:"length"` // number of records
	Hash   string `json:"hash"`   // of the last record, hex; empty: there is none
	Bytes  uint64 `json:"bytes"`  // of all lines
}

// previous is what the next record's Prev must be.
func (h Head) previous() string {
	if h.Length == 0 {
		return None
	}
	return h.Hash
}

// Record is one line. The order of fields is that of the canonical form.
type Record struct {
	V    int             `json:"v"`
	Seq  uint64          `json:"seq"`   // from 1, without gaps
	Prev string          `json:"prev"`  // hex SHA-256 of the record before; None for the first
	Kind string          `json:"kind"`  // names the body's type
	AtMS int64           `json:"at_ms"` // Unix milliseconds by the clock of who proposed it
	Body json.RawMessage `json:"body"`
}

// Hash returns a line's hash; the line includes its line feed.
func Hash(line []byte) string {
	h := sha256.New()
	_, _ = h.Write([]byte(domain)) // A hash never returns an error.
	_, _ = h.Write(line)
	return hex.EncodeToString(h.Sum(nil))
}

// Append returns the line of the record that follows head, with its line feed, and the head after it.
func Append(head Head, atMS int64, body Body) (line []byte, next Head, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, head, fmt.Errorf("encode record %s: %w", body.Kind(), err)
	}
	line, err = json.Marshal(Record{V: Version, Seq: head.Length + 1, Prev: head.previous(), Kind: body.Kind(), AtMS: atMS, Body: raw})
	if err != nil {
		return nil, head, fmt.Errorf("encode record %s: %w", body.Kind(), err)
	}
	line = append(line, '\n')
	if len(line) > MaxRecord {
		return nil, head, fmt.Errorf("encode record %s: %d bytes, at most %d: %w", body.Kind(), len(line), MaxRecord, ErrMalformed)
	}
	return line, Head{Length: head.Length + 1, Hash: Hash(line), Bytes: head.Bytes + uint64(len(line))}, nil
}

// Parse reads one line, with its line feed, and holds it to its canonical form. The body is one of the types of this
// package. Errors wrap ErrMalformed.
func Parse(line []byte) (Record, Body, error) {
	r, err := parseHead(line)
	if err != nil {
		return Record{V: r.V}, nil, err
	}
	decode := decoders[r.Kind]
	if decode == nil {
		return r, nil, fmt.Errorf("%w: unknown kind %.40q", ErrMalformed, r.Kind)
	}
	body, err := decode(r.Body)
	if err != nil {
		return r, nil, fmt.Errorf("%w: body of kind %s: %w", ErrMalformed, r.Kind, err)
	}
	raw, err := json.Marshal(body)
	if err != nil || !bytes.Equal(raw, r.Body) {
		return r, nil, fmt.Errorf("%w: body of kind %s is not in its canonical form", ErrMalformed, r.Kind)
	}
	return r, body, nil
}

// parseHead is Parse without looking into the body.
func parseHead(line []byte) (Record, error) {
	var r Record
	if len(line) > MaxRecord || len(line) == 0 || line[len(line)-1] != '\n' || bytes.IndexByte(line, '\n') != len(line)-1 {
		return r, fmt.Errorf("%w: not one whole line of at most %d bytes", ErrMalformed, MaxRecord)
	}
	if err := strict(line, &r); err != nil {
		return r, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if r.V != Version {
		return r, fmt.Errorf("%w: version %d, this program reads %d", ErrMalformed, r.V, Version)
	}
	again, err := json.Marshal(r)
	if err != nil || !bytes.Equal(again, line[:len(line)-1]) {
		return r, fmt.Errorf("%w: not in its canonical form", ErrMalformed)
	}
	return r, nil
}

// Follow checks that a line is a record that follows head and returns the head after it. It does not look into the body.
// Errors wrap ErrMalformed or ErrChain.
func Follow(head Head, line []byte) (Head, error) {
	r, err := parseHead(line)
	if err != nil {
		return head, err
	}
	if r.Seq != head.Length+1 {
		return head, fmt.Errorf("%w: field seq is %d, record %d is due", ErrChain, r.Seq, head.Length+1)
	}
	if r.Prev != head.previous() {
		return head, fmt.Errorf("%w: field prev is %.12s, the hash of the record before is %.12s", ErrChain, r.Prev, head.previous())
	}
	return Head{Length: r.Seq, Hash: Hash(line), Bytes: head.Bytes + uint64(len(line))}, nil
}

// CutLine returns the first line of b with its line feed, and what follows. ok is false if b holds no whole line.
func CutLine(b []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return nil, b, false
	}
	return b[:i+1], b[i+1:], true
}

// strict decodes exactly one JSON value without unknown fields.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}
