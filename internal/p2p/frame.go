package p2p

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// WriteFrame writes a length (4 bytes, big endian) and the payload in one Write.
func WriteFrame(w io.Writer, payload []byte) error {
	if len(payload) > math.MaxInt32 {
		return fmt.Errorf("write frame: %d bytes are too many", len(payload))
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(payload)), uint32(len(payload)))
	if _, err := w.Write(append(b, payload...)); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

// ReadFrame reads what WriteFrame wrote. A frame of more than limit bytes is an error before anything is allocated,
// and memory grows with what has arrived, not with what was announced. At the end of the stream, before a frame, the
// error is io.EOF itself.
func ReadFrame(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if err == io.EOF { // ReadFull returns it bare, and callers compare it bare.
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read frame: %w", err)
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > int64(limit) {
		return nil, fmt.Errorf("read frame: %d bytes announced, at most %d are allowed", n, limit)
	}
	var buf bytes.Buffer
	buf.Grow(int(min(n, 64<<10)))
	if _, err := io.CopyN(&buf, r, n); err != nil {
		if err == io.EOF { //nolint:errorlint // CopyN returns it bare; the frame was cut.
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read frame: %w", err)
	}
	return buf.Bytes(), nil
}

// WriteMessage writes v as one frame of JSON.
func WriteMessage(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write message: %w", err)
	}
	return WriteFrame(w, b)
}

// ReadMessage reads one frame of JSON of at most limit bytes into v. The end of the stream before it is io.EOF.
func ReadMessage(r io.Reader, limit int, v any) error {
	b, err := ReadFrame(r, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	return nil
}
