package consensus

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxJoin bounds the messages of the join protocol.
const maxJoin = 256 << 10

var errFrame = errors.New("malformed message between sns")

func appendUint64(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

func cutUint64(b []byte) (n uint64, rest []byte, ok bool) {
	if len(b) < 8 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(b), b[8:], true
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
