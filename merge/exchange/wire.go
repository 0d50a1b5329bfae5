package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/merge"
)

// A frame is a header of nine bytes (kind, argument, length of the payload;
// little endian) and the payload. After an attempt is complete the next frame
// from the dialling side is the Hello of another one.
const headerSize = 9

type kind uint8

const (
	kindHello  kind = iota + 1 // argument: sender's index; payload: hello
	kindHave                   // payload: bitmap of the shard's leaves that need not be sent
	kindLeaf                   // argument: leaf; payload: its bytes
	kindWait                   // says "alive": an owner that awaits something, or a contributor that measures what it sent earlier
	kindFail                   // argument: the index blamed, plus one; payload: code and reason
	kindSums                   // argument: number of contributors; payload: the owner's share of their distances
	kindDiff                   // a leaf as merge.Codec has it travel; argument as of kindLeaf
	kindSeal                   // argument: the owner's index; payload: the digest of what it has merged, signed
	kindNorm                   // argument: the contributor's index; payload: the norm of its update over the owner's shard, signed
	kindInputs                 // argument: the contributor's index; payload: digest and signature of its leaves in each shard of the receiver's task
)

const (
	maxHello  = 1024
	maxReason = 512
)

// errFrame is wrapped by errors about bytes that are not the protocol.
var errFrame = errors.New("broken frame")

type header struct {
	kind   kind
	arg    uint32
	length uint32
}

func (h header) append(b []byte) []byte {
	b = append(b, byte(h.kind))
	b = binary.LittleEndian.AppendUint32(b, h.arg)
	return binary.LittleEndian.AppendUint32(b, h.length)
}

func decodeHeader(b [headerSize]byte) header {
	return header{kind(b[0]), binary.LittleEndian.Uint32(b[1:]), binary.LittleEndian.Uint32(b[5:])}
}

// hello opens an attempt on a stream.
type hello struct {
	contract           string
	run, round, number uint64
	sender             int
	plan               merge.Digest
}

// helloVersion is 2 since owners seal what they give, before which the end of a stream was its last leaf.
const helloVersion = 2

const helloFixed = 1 + 3*8 + 32

func (h hello) appendFrame(b []byte) []byte { //nolint:unparam // the form of all frames
	b = header{kindHello, uint32(h.sender), uint32(helloFixed + len(h.contract))}.append(b)
	b = append(b, helloVersion)
	b = binary.LittleEndian.AppendUint64(b, h.run)
	b = binary.LittleEndian.AppendUint64(b, h.round)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = append(b, h.plan[:]...)
	return append(b, h.contract...)
}

func decodeHello(sender uint32, b []byte) (hello, error) {
	if len(b) <= helloFixed || len(b) > helloFixed+MaxContract {
		return hello{}, fmt.Errorf("%w: hello of %d bytes", errFrame, len(b))
	}
	if b[0] != helloVersion {
		return hello{}, fmt.Errorf("%w: hello of version %d, this node speaks version %d", errFrame, b[0], helloVersion)
	}
	if sender >= MaxParticipants {
		return hello{}, fmt.Errorf("%w: sender %d", errFrame, sender)
	}
	h := hello{
		run:      binary.LittleEndian.Uint64(b[1:]),
		round:    binary.LittleEndian.Uint64(b[9:]),
		number:   binary.LittleEndian.Uint64(b[17:]),
		sender:   int(sender),
		contract: string(b[helloFixed:]),
	}
	copy(h.plan[:], b[25:])
	return h, nil
}

// code says what a Fail frame is about.
type code uint8

const (
	codeFailed     code = iota // the attempt failed, the argument blames
	codeNotReady               // refused: this node has no such plan yet; dial again
	codeSuperseded             // refused: a newer attempt, or this one is over
	codeDenied                 // refused: not that participant, or plans differ
	codeContents               // the attempt failed for what the blamed one contributed
	codeHeard                  // the attempt failed for what another one said, who blamed the argument
)

type failFrame struct {
	blamed int
	code   code
	reason string
}

func (f failFrame) append(b []byte) []byte { //nolint:unparam // the form of all frames
	reason := f.reason
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	b = header{kindFail, uint32(f.blamed + 1), uint32(1 + len(reason))}.append(b)
	b = append(b, byte(f.code))
	return append(b, reason...)
}

// decodeFail accepts a blame of one of n participants or of nobody. The reason
// comes from a peer and reaches logs: it is made one clean line.
func decodeFail(arg uint32, b []byte, n int) (failFrame, error) {
	if len(b) < 1 || len(b) > 1+maxReason || uint64(arg) > uint64(n) || code(b[0]) > codeHeard {
		return failFrame{}, fmt.Errorf("%w: fail of %d bytes that blames %d", errFrame, len(b), arg)
	}
	return failFrame{blamed: int(arg) - 1, code: code(b[0]), reason: text.Printable(string(b[1:]), ' ')}, nil
}

// bitmap has one bit for each leaf of a shard, lowest bit first.
type bitmap []byte

func newBitmap(leaves int) bitmap { return make(bitmap, (leaves+7)/8) }

func (m bitmap) get(i int) bool { return m[i/8]>>(i%8)&1 != 0 }
func (m bitmap) set(i int)      { m[i/8] |= 1 << (i % 8) }

func (m bitmap) appendFrame(b []byte) []byte {
	return append(header{kindHave, 0, uint32(len(m))}.append(b), m...)
}
