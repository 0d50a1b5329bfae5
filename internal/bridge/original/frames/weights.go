package frames

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/swarmd/swarmd/internal/bridge/original/array"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/merge"
)

// ParseWeights decodes the message in which releases before 2.3 send their weights. The arrays read the message. They are sorted by
// name: protobuf gives the entries of a map in any order.
func ParseWeights(message []byte) ([]array.Array, error) {
	var list []array.Array
	err := each(message, func(f field) error {
		if f.number != 1 {
			return nil
		}
		if f.kind != protowire.BytesType {
			return errKind
		}
		if len(list) == array.MaxCount {
			return fmt.Errorf("there are more than %d arrays", array.MaxCount)
		}
		a, err := parseEntry(f.bytes)
		list = append(list, a)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	slices.SortFunc(list, func(a, b array.Array) int { return strings.Compare(a.Name, b.Name) })
	for i := range list[min(1, len(list)):] {
		if list[i].Name == list[i+1].Name {
			return nil, fmt.Errorf("weights: array %q is there twice", text.Clip(list[i].Name, 64))
		}
	}
	return list, nil
}

func parseEntry(entry []byte) (a array.Array, err error) {
	var value []byte
	if err := readFields(entry, into{1: &a.Name, 2: &value}); err != nil {
		return a, err
	}
	var dtype string
	var data []byte
	err = each(value, func(f field) error {
		switch f.number {
		case 1:
			return f.store(&dtype)
		case 2:
			a.Shape, err = appendShape(a.Shape, f)
			return err
		case 3:
			return f.store(&data)
		}
		return nil
	})
	if err != nil {
		return a, err
	}
	name, _ := strings.CutPrefix(dtype, "dtype('")
	name, repr := strings.CutSuffix(name, "')")
	if a.DType, err = merge.ParseDType(name); err != nil || !repr {
		return a, fmt.Errorf("array %q: %s is no type that can be merged: convert it, to float32 perhaps", text.Clip(a.Name, 64), text.Printable(text.Clip(dtype, 64), '?'))
	}
	a.Data = io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
	return a, a.Check()
}

// appendShape takes one number, or several that are packed.
func appendShape(shape []int64, f field) ([]int64, error) {
	packed := f.bytes
	if f.kind == protowire.VarintType {
		packed = protowire.AppendVarint(nil, f.varint)
	} else if f.kind != protowire.BytesType {
		return nil, errKind
	}
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		if len(shape) == array.MaxDims {
			return nil, fmt.Errorf("an array has more than %d dimensions", array.MaxDims)
		}
		shape, packed = append(shape, int64(uint32(v))), packed[n:] //nolint:gosec // as protobuf cuts it
	}
	return shape, nil
}

// WriteQuestion writes a GetLoss with weights in it, and its header, to w.
func WriteQuestion(w io.Writer, version uint32, o Offer, number int32, list []array.Value) error {
	weights, heads := 0, make([][]byte, len(list))
	for i, a := range list {
		heads[i] = entryHead(a)
		weights += len(heads[i]) + len(a.Data)
	}
	before := protowire.AppendTag(AppendQuestion(nil, o, number, ""), 4, protowire.BytesType)
	before = protowire.AppendVarint(before, uint64(weights)) //nolint:gosec // a length
	if len(before)+weights > MaxWeights {
		return fmt.Errorf("the model has %d bytes, and the messages of releases before 2.3 at most %d: use release 2.3, or swarmd's own package", weights, MaxWeights)
	}
	h := Header{Version: version, Type: GetLoss, Size: uint32(len(before) + weights)} //nolint:gosec // just held to a bound
	if _, err := w.Write(append(h.Append(nil), before...)); err != nil {
		return err
	}
	for i, a := range list {
		if _, err := w.Write(heads[i]); err != nil {
			return err
		}
		if _, err := w.Write(a.Data); err != nil {
			return err
		}
	}
	return nil
}

// entryHead is an entry of the map up to its data, which come last.
func entryHead(a array.Value) []byte {
	value := appendString(nil, 1, "dtype('"+a.DType.String()+"')")
	if len(a.Shape) > 0 {
		var packed []byte
		for _, n := range a.Shape {
			packed = protowire.AppendVarint(packed, uint64(n)) //nolint:gosec // not negative
		}
		value = appendMessage(value, 2, packed)
	}
	value = protowire.AppendVarint(protowire.AppendTag(value, 3, protowire.BytesType), uint64(len(a.Data)))
	entry := appendString(nil, 1, a.Name)
	entry = protowire.AppendVarint(protowire.AppendTag(entry, 2, protowire.BytesType), uint64(len(value)+len(a.Data)))
	entry = append(entry, value...)
	head := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), uint64(len(entry)+len(a.Data)))
	return append(head, entry...)
}
