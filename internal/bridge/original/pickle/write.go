package pickle

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/swarmd/swarmd/internal/bridge/original/array"
)

// Write writes a pickle of protocol 5. Whoever loads it can write to its arrays. module is that of a Weights of the same program.
func Write(w io.Writer, module string, list []array.Value) error {
	b := []byte{opProto, 5, opEmptyDict}
	for _, a := range list {
		code, known := codeOf(a.DType)
		if !known {
			return fmt.Errorf("array %q: numpy has no type %s", a.Name, a.DType)
		}
		b = appendWord(b, word(a.Name))
		b = append(appendWord(appendWord(b, word(module)), "_frombuffer"), opStackGlobal, opMark, opByteArray8)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(a.Data)))
		for _, part := range [][]byte{b, a.Data} {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		b = appendKind(b[:0], code)
		b = append(b, opMark)
		for _, n := range a.Shape {
			b = appendInt(b, n)
		}
		b = append(appendWord(append(b, opTuple), "C"), opTuple, opReduce, opSetItem)
	}
	_, err := w.Write(append(b, opStop))
	return err
}

func appendWord(b []byte, s word) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, opBinUnicode), uint32(len(s))) //nolint:gosec // a name
	return append(b, s...)
}

// appendKind appends a numpy.dtype, with its state: the version of that, the byte order, and what plain types have not.
func appendKind(b []byte, code word) []byte {
	order := word("<")
	if code[1] == '1' {
		order = "|"
	}
	b = append(appendWord(appendWord(b, "numpy"), "dtype"), opStackGlobal)
	b = append(appendWord(b, code), opNewFalse, opNewTrue, opTuple3, opReduce)
	b = appendWord(append(b, opMark, opBinInt1, 3), order)
	b = append(b, opNone, opNone, opNone)
	b = appendInt(appendInt(b, -1), -1)
	return append(b, opBinInt1, 0, opTuple, opBuild)
}

func appendInt(b []byte, n int64) []byte {
	if n >= math.MinInt32 && n <= math.MaxInt32 {
		return binary.LittleEndian.AppendUint32(append(b, opBinInt), uint32(n)) //nolint:gosec // as a signed one of 4 bytes
	}
	return binary.LittleEndian.AppendUint64(append(b, opLong1, 8), uint64(n)) //nolint:gosec // as a signed one of 8 bytes
}
