package pickle

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/swarmd/swarmd/internal/bridge/original/array"
	"github.com/swarmd/swarmd/internal/text"
)

// call is what a name with arguments stands for.
func (m *machine) call(callable, arguments any) (any, error) {
	name, isName := callable.(global)
	args, isTuple := arguments.(tuple)
	if !isName || !isTuple {
		return nil, errNotWeights
	}
	switch name {
	case nameDType:
		return newKind(args)
	case nameEncode:
		return encoded(args)
	case nameBytes:
		if len(args) == 0 {
			return blob{part: io.NewSectionReader(m.in.from, 0, 0)}, nil
		}
		return nil, errNotWeights
	}
	switch maker := makers[name]; maker.function {
	case fromBuffer:
		return newFromBuffer(args, maker.module)
	case reconstruct:
		if len(args) == 3 && args[0] == nameNDArray {
			return &ndarray{module: maker.module}, nil
		}
	}
	return nil, errNotWeights
}

func newKind(args tuple) (any, error) {
	if len(args) == 0 {
		return nil, errNotWeights
	}
	code, _ := args[0].(word)
	d, known := codes[code]
	if !known {
		return nil, fmt.Errorf("%w: arrays of type %s can not be merged: convert them, to float32 perhaps", errNotWeights, text.Printable(text.Clip(string(code), 32), '?'))
	}
	return &kind{dtype: d}, nil
}

// encoded is how protocol 2 writes bytes: a text, and the encoding that makes bytes of it.
func encoded(args tuple) (any, error) {
	if len(args) != 2 || args[1] != word("latin1") {
		return nil, errNotWeights
	}
	switch s := args[0].(type) {
	case word:
		return latin(io.NewSectionReader(bytes.NewReader([]byte(s)), 0, int64(len(s)))), nil
	case blob:
		if s.utf8 {
			return latin(s.part), nil
		}
	}
	return nil, errNotWeights
}

func latin(part *io.SectionReader) blob { return blob{part: part, latin: true} }

// data are the bytes that a value stands for, of which there are size.
func data(v any, size int64) (*io.SectionReader, error) {
	b, ok := v.(blob)
	switch {
	case !ok || b.utf8:
		return nil, errNotWeights
	case !b.latin:
		return b.part, nil
	case size < 0 || size > b.part.Size(): // each byte is one or two of the text
		return nil, fmt.Errorf("%w: an array's data do not have the length of its shape", errNotWeights)
	}
	plain := make([]byte, 0, size)
	in := bufio.NewReader(io.NewSectionReader(b.part, 0, b.part.Size()))
	for {
		r, _, err := in.ReadRune()
		if err == io.EOF { //nolint:errorlint // as ReadRune returns it
			return io.NewSectionReader(bytes.NewReader(plain), 0, int64(len(plain))), nil
		}
		if err != nil {
			return nil, err
		}
		if r > 0xff || r == utf8.RuneError || int64(len(plain)) == size {
			return nil, fmt.Errorf("%w: an array's data do not have the length of its shape", errNotWeights)
		}
		plain = append(plain, byte(r))
	}
}

// newFromBuffer is numpy's function of protocol 5: buffer, type, shape, order.
func newFromBuffer(args tuple, module string) (any, error) {
	if len(args) != 4 {
		return nil, errNotWeights
	}
	order, ok := args[3].(word)
	if !ok || order != "C" && order != "F" {
		return nil, errNotWeights
	}
	a := &ndarray{module: module}
	return a, a.fill(args[0], args[1], args[2], order == "F")
}

// fill gives an array its elements.
func (a *ndarray) fill(buffer, dtype, shape any, fortran bool) error {
	k, isKind := dtype.(*kind)
	dims, isTuple := shape.(tuple)
	if !isKind || !isTuple || a.filled || len(dims) > array.MaxDims {
		return errNotWeights
	}
	if k.order != "<" && k.order != "|" {
		return fmt.Errorf("%w: an array is not little-endian: convert it", errNotWeights)
	}
	a.DType, a.Fortran, a.filled = k.dtype, fortran, true
	for _, d := range dims {
		n, ok := d.(int64)
		if !ok {
			return errNotWeights
		}
		a.Shape = append(a.Shape, n)
	}
	var err error
	a.Data, err = data(buffer, a.Bytes())
	return err
}

// build gives what was made its state.
func build(made, state any) error {
	s, ok := state.(tuple)
	if !ok {
		return errNotWeights
	}
	switch v := made.(type) {
	case *kind: // version, byte order, and nothing else that a plain type has
		if len(s) >= 2 {
			if order, ok := s[1].(word); ok {
				v.order = string(order)
				return nil
			}
		}
	case *ndarray: // version, shape, type, order, data
		if len(s) == 5 {
			if fortran, ok := s[3].(bool); ok {
				return v.fill(s[4], s[2], s[1], fortran)
			}
		}
	}
	return errNotWeights
}
