package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// input reads a file from the front. What is skipped is not read.
type input struct {
	from io.ReaderAt
	size int64
	at   int64 // where buf begins in the file
	buf  []byte
	room [32 << 10]byte
}

var errShort = errors.New("the pickle is cut off")

// take returns the next n bytes, at most 4 KiB. They are good until the next call.
func (in *input) take(n int) ([]byte, error) {
	if len(in.buf) < n {
		if err := in.fill(n); err != nil {
			return nil, err
		}
	}
	b := in.buf[:n]
	in.buf, in.at = in.buf[n:], in.at+int64(n)
	return b, nil
}

func (in *input) fill(n int) error {
	if in.size-in.at < int64(n) {
		return errShort
	}
	room := in.room[:min(int64(len(in.room)), in.size-in.at)]
	got, err := in.from.ReadAt(room, in.at)
	in.buf = room[:got]
	if got >= n {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return errShort
	}
	return err
}

// skip passes n bytes over and returns them as a part of the file.
func (in *input) skip(n uint64) (*io.SectionReader, error) {
	if n > uint64(in.size-in.at) { //nolint:gosec // never negative
		return nil, errShort
	}
	part := io.NewSectionReader(in.from, in.at, int64(n)) //nolint:gosec // at most the file's size
	in.buf = in.buf[min(uint64(len(in.buf)), n):]
	in.at += int64(n) //nolint:gosec // likewise
	return part, nil
}

// number reads a little-endian number of so many bytes without a sign.
func (in *input) number(bytes int) (uint64, error) {
	b, err := in.take(bytes)
	if err != nil {
		return 0, err
	}
	var full [8]byte
	copy(full[:], b)
	return binary.LittleEndian.Uint64(full[:]), nil
}

// line reads up to the next line feed, of at most 256 bytes.
func (in *input) line() (string, error) {
	var line []byte
	for len(line) < 256 {
		b, err := in.take(1)
		if err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
	return "", fmt.Errorf("%w: a name has more than %d bytes", errNotWeights, len(line))
}
