// Package tensorboard writes and reads the event files that TensorBoard shows, as far as scalars go.
//
// An event file is a row of TFRecords (tensorflow/core/lib/io/record_writer.h), each an Event message
// (tensorflow/core/util/event.proto); a CRC guards a record's length and its bytes.
package tensorboard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxRecord bounds a record, in bytes; those of this package are far smaller.
const maxRecord = 1 << 20

// errCut reports a file that ends within a record, or whose record is damaged: what stands before it is good.
var errCut = errors.New("record is cut off or damaged")

// castagnoli is the polynomial of TFRecords.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the CRC of a TFRecord: rotated and with a constant added, so that a CRC over bytes that have one differs.
func masked(b []byte) uint32 {
	crc := crc32.Checksum(b, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// appendRecord appends data as a TFRecord: its length, the length's CRC, itself, its CRC, all little-endian.
func appendRecord(b, data []byte) []byte {
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(append(b, head...), masked(head))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, masked(data))
}

// nextRecord reads a TFRecord. It returns io.EOF at the end, errCut where the rest can't be read.
func nextRecord(r io.Reader) ([]byte, error) {
	var head [12]byte
	if n, err := io.ReadFull(r, head[:]); err != nil {
		if n == 0 && errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, cutOr(err)
	}
	size := binary.LittleEndian.Uint64(head[:8])
	if masked(head[:8]) != binary.LittleEndian.Uint32(head[8:]) || size > maxRecord {
		return nil, errCut
	}
	data := make([]byte, size+4)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, cutOr(err)
	}
	if masked(data[:size]) != binary.LittleEndian.Uint32(data[size:]) {
		return nil, errCut
	}
	return data[:size], nil
}

func cutOr(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}

// Fields of Event (tensorflow/core/util/event.proto).
const (
	eventWallTime    = 1 // double, seconds since 1970
	eventStep        = 2 // int64
	eventFileVersion = 3 // string, of the first event of a file
	eventSummary     = 5 // Summary
)

// Fields of Summary and of Summary.Value (tensorflow/core/framework/summary.proto).
const (
	summaryValue     = 1 // repeated Value
	valueTag         = 1 // string
	valueSimpleValue = 2 // float
)

// fileVersion begins every file that TensorBoard reads.
const fileVersion = "brain.Event:2"

// Scalar is a value under a tag.
type Scalar struct {
	Tag   string
	Value float64
}

// Event is what a file has of one step.
type Event struct {
	AtMS    int64
	Step    uint64
	Version string // of the first event
	Scalars []Scalar
}

// encode returns the event's message.
func (e *Event) encode() []byte {
	b := protowire.AppendTag(nil, eventWallTime, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(float64(e.AtMS)/1000))
	if e.Step > 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, eventStep, protowire.VarintType), e.Step)
	}
	if e.Version != "" {
		b = protowire.AppendString(protowire.AppendTag(b, eventFileVersion, protowire.BytesType), e.Version)
	}
	var summary []byte
	for _, s := range e.Scalars {
		v := protowire.AppendString(protowire.AppendTag(nil, valueTag, protowire.BytesType), s.Tag)
		v = protowire.AppendFixed32(protowire.AppendTag(v, valueSimpleValue, protowire.Fixed32Type), math.Float32bits(float32(s.Value)))
		summary = protowire.AppendBytes(protowire.AppendTag(summary, summaryValue, protowire.BytesType), v)
	}
	if len(summary) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, eventSummary, protowire.BytesType), summary)
	}
	return b
}

// decodeEvent reads an event's message. Fields that it does not know are left out.
func decodeEvent(b []byte) (e Event, err error) {
	err = fields(b, func(f field) error {
		switch {
		case f.number == eventWallTime && f.kind == protowire.Fixed64Type:
			if at := math.Float64frombits(f.bits) * 1000; at > 0 && at < math.MaxInt64/2 {
				e.AtMS = int64(math.Round(at))
			}
		case f.number == eventStep && f.kind == protowire.VarintType:
			if e.Step = f.bits; f.bits > math.MaxInt64 {
				e.Step = 0 // a negative one
			}
		case f.number == eventFileVersion && f.kind == protowire.BytesType:
			e.Version = string(f.bytes)
		case f.number == eventSummary && f.kind == protowire.BytesType:
			return fields(f.bytes, func(f field) error {
				if f.number != summaryValue || f.kind != protowire.BytesType {
					return nil
				}
				s, err := decodeScalar(f.bytes)
				e.Scalars = append(e.Scalars, s)
				return err
			})
		}
		return nil
	})
	return e, err
}

func decodeScalar(b []byte) (s Scalar, err error) {
	err = fields(b, func(f field) error {
		switch {
		case f.number == valueTag && f.kind == protowire.BytesType:
			s.Tag = string(f.bytes)
		case f.number == valueSimpleValue && f.kind == protowire.Fixed32Type:
			s.Value = float64(math.Float32frombits(uint32(f.bits))) //nolint:gosec // it has 32 bits
		}
		return nil
	})
	return s, err
}

// field is one of a message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	bits   uint64
	bytes  []byte
}

// fields calls each with the fields of a message.
func fields(b []byte, each func(field) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("event: %w", protowire.ParseError(n))
		}
		b = b[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.bits, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.bits, n = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(b)
			f.bits = uint64(bits)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("event: %w", protowire.ParseError(n))
		}
		if b = b[n:]; f.kind != protowire.StartGroupType {
			if err := each(f); err != nil {
				return err
			}
		}
	}
	return nil
}
