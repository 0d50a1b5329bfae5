package frames

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a message: of its value one is set.
type field struct {
	number protowire.Number
	kind   protowire.Type
	varint uint64
	fixed  uint32
	bytes  []byte // of the message, not a copy
}

// each calls take with each field of a message, as far as it is one.
func each(message []byte, take func(field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("message: %w", protowire.ParseError(n))
		}
		f := field{number: number, kind: kind}
		rest := message[n:]
		switch kind {
		case protowire.VarintType:
			f.varint, n = protowire.ConsumeVarint(rest)
		case protowire.Fixed32Type:
			f.fixed, n = protowire.ConsumeFixed32(rest)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(rest)
		default:
			n = protowire.ConsumeFieldValue(number, kind, rest)
		}
		if n < 0 {
			return fmt.Errorf("message: %w", protowire.ParseError(n))
		}
		if err := take(f); err != nil {
			return err
		}
		message = rest[n:]
	}
	return nil
}

var errKind = errors.New("message: a field has another type than the original's")

// into is where a field's value goes: *int32, *uint32, *bool, *float32, *string, *[]byte, or a function for a message.
type into map[protowire.Number]any

// readFields reads a message. Unknown fields are ignored, of one that comes twice the last counts.
func readFields(message []byte, to into) error {
	return each(message, func(f field) error {
		target, known := to[f.number]
		if !known {
			return nil
		}
		return f.store(target)
	})
}

func (f field) store(target any) error {
	kind := protowire.BytesType
	switch to := target.(type) {
	case *int32:
		kind, *to = protowire.VarintType, int32(f.varint) //nolint:gosec // as protobuf cuts it
	case *bool:
		kind, *to = protowire.VarintType, f.varint != 0
	case *float32:
		kind, *to = protowire.Fixed32Type, math.Float32frombits(f.fixed)
	case *string:
		*to = string(f.bytes)
	case *[]byte:
		*to = f.bytes
	case func([]byte) error:
		if f.kind == kind {
			return to(f.bytes)
		}
	}
	if f.kind != kind {
		return errKind
	}
	return nil
}

func appendInt(b []byte, number protowire.Number, v int32) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(int64(v))) //nolint:gosec // as protobuf has it
}

func appendString(b []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), s)
}

func appendMessage(b []byte, number protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), m)
}
