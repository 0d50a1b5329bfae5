package consensus

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// MaxPayload bounds what SendToLeader carries, in bytes, each way.
const MaxPayload = 4 << 20

// maxFrame leaves room for a header beside a payload of the largest size.
const maxFrame = MaxPayload + 4<<10

// maxJoin bounds the messages of the join protocol.
const maxJoin = 256 << 10

// maxKind bounds the name of a handler.
const maxKind = 64

// Frame types of the forward protocol.
const (
	framePropose byte = 1 // body: an encoded command
	frameCall    byte = 2 // body: handler name with its length in one byte, payload
	frameOK      byte = 6
	frameError   byte = 7 // body: a wireError, JSON
)

// frame is one message of the forward protocol:
// length (4 bytes, of the rest), id (8), type (1), number (8), body.
type frame struct {
	id   uint64 // chosen by the asking side, returned by the answering one
	kind byte
	// number is the milliseconds that a request may take, or the log index of an answer.
	number uint64
	body   []byte
}

const frameHeader = 8 + 1 + 8

var errFrame = errors.New("malformed message between sns")

func appendUint64(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

func cutUint64(b []byte) (n uint64, rest []byte, ok bool) {
	if len(b) < 8 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(b), b[8:], true
}

func (f frame) encode() ([]byte, error) {
	size := frameHeader + len(f.body)
	if size > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errFrame, size, maxFrame)
	}
	b := make([]byte, 0, 4+size)
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	b = appendUint64(b, f.id)
	b = append(b, f.kind)
	b = appendUint64(b, f.number)
	return append(b, f.body...), nil
}

func readFrame(r io.Reader) (frame, error) {
	b, err := readSized(r, maxFrame)
	if err != nil {
		return frame{}, err
	}
	if len(b) < frameHeader {
		return frame{}, fmt.Errorf("%w: %d bytes", errFrame, len(b))
	}
	return frame{
		id: binary.BigEndian.Uint64(b), kind: b[8],
		number: binary.BigEndian.Uint64(b[9:]), body: b[frameHeader:],
	}, nil
}

// readSized reads one length-prefixed message and allocates no more than has arrived, roughly.
func readSized(r io.Reader, limit uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errFrame, size, limit)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && len(b) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

func writeJSON(w io.Writer, limit int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", errFrame, len(b), limit)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

func encodeCall(kind string, payload []byte) ([]byte, error) {
	if kind == "" || len(kind) > maxKind {
		return nil, fmt.Errorf("send to leader: bad kind %q", kind)
	}
	if len(payload) > MaxPayload {
		return nil, fmt.Errorf("send to leader: payload of %d bytes, at most %d", len(payload), MaxPayload)
	}
	b := make([]byte, 0, 1+len(kind)+len(payload))
	b = append(b, byte(len(kind)))
	b = append(b, kind...)
	return append(b, payload...), nil
}

func decodeCall(b []byte) (kind string, payload []byte, err error) {
	if len(b) < 1 || b[0] == 0 || int(b[0]) > maxKind || len(b) < 1+int(b[0]) {
		return "", nil, errFrame
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], nil
}

// maxRequest bounds how long one SN works on another's request.
const maxRequest = time.Minute

func requestTimeout(ms uint64) time.Duration {
	if ms == 0 || ms > uint64(maxRequest/time.Millisecond) {
		return maxRequest
	}
	return time.Duration(ms) * time.Millisecond
}
