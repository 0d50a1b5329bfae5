// Package wire is what travels on the streams of a merge: the frames, and the connections that carry them.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/merge"
)

// HeaderSize is the length of a header. A frame is a header of nine bytes (kind, argument, length of the payload;
// little endian) and the payload. After an attempt is complete the next frame
// from the dialling side is the Hello of another one.
const HeaderSize = 9

// Kind is what a frame is.
type Kind uint8

// The kinds of frames.
const (
	KindHello  Kind = iota + 1 // argument: sender's index; payload: hello
	KindHave                   // payload: bitmap of the shard's leaves that need not be sent
	KindLeaf                   // argument: leaf; payload: its bytes
	KindWait                   // says "alive": an owner that awaits something, or a contributor that measures what it sent earlier
	KindFail                   // argument: the index blamed, plus one; payload: code and reason
	KindSums                   // argument: number of contributors; payload: the owner's share of their distances
	KindDiff                   // a leaf as merge.Codec has it travel; argument as of KindLeaf
	KindSeal                   // argument: the owner's index; payload: the digest of what it has merged, signed
	KindNorm                   // argument: the contributor's index; payload: the norm of its update over the owner's shard, signed
	KindInputs                 // argument: the contributor's index; payload: digest and signature of its leaves in each shard of the receiver's task
)

// Bounds of what a plan may say.
const (
	MaxContract     = 128  // bytes of a contract's name
	MaxParticipants = 4096 // of one attempt
)

// Bounds of payloads.
const (
	MaxHello  = 1024 // of a Hello
	MaxReason = 512  // of the text in a Fail
)

// ErrFrame is wrapped by errors about bytes that are not the protocol.
var ErrFrame = errors.New("broken frame")

// Header begins a frame.
type Header struct {
	Kind   Kind
	Arg    uint32
	Length uint32 // of the payload
}

// Append appends the header.
func (h Header) Append(b []byte) []byte {
	b = append(b, byte(h.Kind))
	b = binary.LittleEndian.AppendUint32(b, h.Arg)
	return binary.LittleEndian.AppendUint32(b, h.Length)
}

// DecodeHeader reads what Append has written.
func DecodeHeader(b [HeaderSize]byte) Header {
	return Header{Kind(b[0]), binary.LittleEndian.Uint32(b[1:]), binary.LittleEndian.Uint32(b[5:])}
}

// Unexpected is the error for a frame that must not stand here.
func Unexpected(h Header) error {
	return fmt.Errorf("%w: kind %d, argument %d, %d bytes are not expected here", ErrFrame, h.Kind, h.Arg, h.Length)
}

// Hello opens an attempt on a stream.
type Hello struct {
	Contract           string
	Run, Round, Number uint64
	Sender             int
	Plan               merge.Digest
}

// helloVersion is 2 since owners seal what they give, before which the end of a stream was its last leaf.
const helloVersion = 2

const helloFixed = 1 + 3*8 + 32

// AppendFrame appends the frame.
func (h Hello) AppendFrame(b []byte) []byte {
	b = Header{KindHello, uint32(h.Sender), uint32(helloFixed + len(h.Contract))}.Append(b)
	b = append(b, helloVersion)
	b = binary.LittleEndian.AppendUint64(b, h.Run)
	b = binary.LittleEndian.AppendUint64(b, h.Round)
	b = binary.LittleEndian.AppendUint64(b, h.Number)
	b = append(b, h.Plan[:]...)
	return append(b, h.Contract...)
}

// DecodeHello reads the payload of a frame whose argument was the sender.
func DecodeHello(sender uint32, b []byte) (Hello, error) {
	if len(b) <= helloFixed || len(b) > helloFixed+MaxContract {
		return Hello{}, fmt.Errorf("%w: hello of %d bytes", ErrFrame, len(b))
	}
	if b[0] != helloVersion {
		return Hello{}, fmt.Errorf("%w: hello of version %d, this node speaks version %d", ErrFrame, b[0], helloVersion)
	}
	if sender >= MaxParticipants {
		return Hello{}, fmt.Errorf("%w: sender %d", ErrFrame, sender)
	}
	h := Hello{
		Run:      binary.LittleEndian.Uint64(b[1:]),
		Round:    binary.LittleEndian.Uint64(b[9:]),
		Number:   binary.LittleEndian.Uint64(b[17:]),
		Sender:   int(sender),
		Contract: string(b[helloFixed:]),
	}
	copy(h.Plan[:], b[25:])
	return h, nil
}

// Code says what a Fail frame is about.
type Code uint8

// What a Fail is about.
const (
	CodeFailed     Code = iota // the attempt failed, the argument blames
	CodeNotReady               // refused: this node has no such plan yet; dial again
	CodeSuperseded             // refused: a newer attempt, or this one is over
	CodeDenied                 // refused: not that participant, or plans differ
	CodeContents               // the attempt failed for what the blamed one contributed
	CodeHeard                  // the attempt failed for what another one said, who blamed the argument
)

// Fail says why its sender leaves the attempt.
type Fail struct {
	Blamed int
	Code   Code
	Reason string
}

// Append appends the frame.
func (f Fail) Append(b []byte) []byte {
	reason := f.Reason
	if len(reason) > MaxReason {
		reason = reason[:MaxReason]
	}
	b = Header{KindFail, uint32(f.Blamed + 1), uint32(1 + len(reason))}.Append(b)
	b = append(b, byte(f.Code))
	return append(b, reason...)
}

// DecodeFail accepts a blame of one of n participants or of nobody. The reason
// comes from a peer and reaches logs: it is made one clean line.
func DecodeFail(arg uint32, b []byte, n int) (Fail, error) {
	if len(b) < 1 || len(b) > 1+MaxReason || uint64(arg) > uint64(n) || Code(b[0]) > CodeHeard {
		return Fail{}, fmt.Errorf("%w: fail of %d bytes that blames %d", ErrFrame, len(b), arg)
	}
	return Fail{Blamed: int(arg) - 1, Code: Code(b[0]), Reason: text.Printable(string(b[1:]), ' ')}, nil
}

// AppendHave appends the frame that says which leaves need not be sent: one bit for each leaf of the shard.
func AppendHave(b, leaves []byte) []byte {
	return append(Header{KindHave, 0, uint32(len(leaves))}.Append(b), leaves...)
}
