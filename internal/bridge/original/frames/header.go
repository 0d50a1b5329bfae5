// Package frames reads and writes what the original's client sends over its two pipes: headers of 22 bytes, and protobuf messages.
package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// HeaderSize is the length of a header, always: protobuf would leave out a size of 0, and its reader would wait for ever.
const HeaderSize = 22

// Type says what message follows a header.
type Type uint32

// The types.
const (
	Status Type = iota + 1
	OpenSession
	SessionOpened
	CloseSession
	SessionClosed
	Sync
	Synced
	GetLoss
	Loss
	KillSession
)

// Bounds of a body in bytes.
const (
	MaxBody    = 64 << 10
	MaxWeights = 1<<31 - 1 // protobuf has no longer messages
)

// firstPart is how much of a body is allocated before any of it has come.
const firstPart = 1 << 20

// Header is what stands before each message.
type Header struct {
	Version uint32
	Type    Type
	Size    uint32 // of the message, in bytes
}

// fixed are the bytes of a header that never change, with their places: tags and lengths of protobuf.
var fixed = []struct {
	at    int
	bytes string
}{{0, "\x0a\x0a\x0d"}, {7, "\x15"}, {12, "\x15"}, {17, "\x1d"}}

// Append appends the header's 22 bytes.
func (h Header) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, fixed[0].bytes...), h.Version)
	b = binary.LittleEndian.AppendUint32(append(b, fixed[1].bytes...), h.Version) // the least version that is taken: read by nobody
	b = binary.LittleEndian.AppendUint32(append(b, fixed[2].bytes...), uint32(h.Type))
	return binary.LittleEndian.AppendUint32(append(b, fixed[3].bytes...), h.Size)
}

// ErrNoHeader is wrapped where 22 bytes are no header.
var ErrNoHeader = errors.New("these bytes are no header of the original's bridge")

// ParseHeader reads a header.
func ParseHeader(b [HeaderSize]byte) (Header, error) {
	for _, f := range fixed {
		if string(b[f.at:f.at+len(f.bytes)]) != f.bytes {
			return Header{}, fmt.Errorf("%w: % x", ErrNoHeader, b)
		}
	}
	return Header{
		Version: binary.LittleEndian.Uint32(b[3:]),
		Type:    Type(binary.LittleEndian.Uint32(b[13:])),
		Size:    binary.LittleEndian.Uint32(b[18:]),
	}, nil
}

// Limit is the length that a message of a type may have: weights travel in some.
func (t Type) Limit() uint32 {
	switch t {
	case Sync, CloseSession, GetLoss:
		return MaxWeights
	}
	return MaxBody
}

// ReadBody reads a message into buf, which it enlarges as the bytes come: what is announced costs nothing.
func ReadBody(r io.Reader, h Header, buf []byte) ([]byte, error) {
	if h.Size > h.Type.Limit() {
		return buf[:0], fmt.Errorf("a message of type %d has %d bytes, want at most %d", h.Type, h.Size, h.Type.Limit())
	}
	size := int(h.Size)
	if cap(buf) < min(size, firstPart) {
		buf = make([]byte, 0, min(size, firstPart))
	}
	buf = buf[:0]
	for len(buf) < size {
		if len(buf) == cap(buf) {
			larger := make([]byte, len(buf), min(size, 4*cap(buf)))
			copy(larger, buf)
			buf = larger
		}
		from := len(buf)
		buf = buf[:min(size, cap(buf))]
		if n, err := io.ReadFull(r, buf[from:]); err != nil {
			return buf[:from+n], fmt.Errorf("read a message of %d bytes: %w", size, err)
		}
	}
	return buf, nil
}
