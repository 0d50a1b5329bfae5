package pickle

import (
	"fmt"
	"unicode/utf8"
)

// The instructions of pickles, by Python's names for them.
const (
	opMark            = '('
	opStop            = '.'
	opBinInt          = 'J'
	opBinInt1         = 'K'
	opBinInt2         = 'M'
	opNone            = 'N'
	opReduce          = 'R'
	opBinUnicode      = 'X'
	opBuild           = 'b'
	opGlobal          = 'c'
	opBinGet          = 'h'
	opLongBinGet      = 'j'
	opBinPut          = 'q'
	opLongBinPut      = 'r'
	opSetItem         = 's'
	opTuple           = 't'
	opSetItems        = 'u'
	opEmptyDict       = '}'
	opEmptyTuple      = ')'
	opBinBytes        = 'B'
	opShortBinBytes   = 'C'
	opProto           = 0x80
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opLong1           = 0x8a
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opBinBytes8       = 0x8e
	opStackGlobal     = 0x93
	opMemoize         = 0x94
	opFrame           = 0x95
	opByteArray8      = 0x96
)

// lengths are how many bytes of length stand behind an instruction, before its text or bytes.
var lengths = map[byte]int{
	opShortBinUnicode: 1, opBinUnicode: 4, opBinUnicode8: 8,
	opShortBinBytes: 1, opBinBytes: 4, opBinBytes8: 8, opByteArray8: 8,
}

// indices are how many bytes of the memo's index stand behind an instruction.
var indices = map[byte]int{opBinGet: 1, opLongBinGet: 4, opBinPut: 1, opLongBinPut: 4}

// step executes one instruction.
func (m *machine) step(op byte) error {
	switch op {
	case opShortBinUnicode, opBinUnicode, opBinUnicode8, opShortBinBytes, opBinBytes, opBinBytes8, opByteArray8:
		return m.bytes(op)
	case opBinGet, opLongBinGet, opBinPut, opLongBinPut:
		return m.remember(op)
	case opBinInt, opBinInt1, opBinInt2, opLong1:
		return m.integer(op)
	case opMemoize:
		return m.memoize(uint32(len(m.memo))) //nolint:gosec // at most maxMemo
	case opNone:
		return m.push(nil)
	case opNewTrue, opNewFalse:
		return m.push(op == opNewTrue)
	case opMark:
		return m.push(mark{})
	case opTuple, opEmptyTuple, opTuple1, opTuple2, opTuple3:
		return m.tuple(op)
	case opEmptyDict:
		if m.made != nil {
			return errNotWeights
		}
		m.made = &dict{names: make(map[string]int)}
		return m.push(m.made)
	case opSetItem, opSetItems:
		return m.items(op)
	case opGlobal, opStackGlobal:
		return m.global(op)
	case opReduce, opBuild:
		return m.apply(op)
	case opProto:
		version, err := m.in.number(1)
		if err == nil && version > 5 {
			err = fmt.Errorf("it is a pickle of protocol %d, which this swarmd does not know", version)
		}
		return err
	case opFrame: // says how much may be read at once
		_, err := m.in.number(8)
		return err
	}
	return fmt.Errorf("%w: instruction %#02x", errNotWeights, op)
}

// bytes pushes a text or bytes. Long ones stay in the file.
func (m *machine) bytes(op byte) error {
	n, err := m.in.number(lengths[op])
	if err != nil {
		return err
	}
	unicode := op == opShortBinUnicode || op == opBinUnicode || op == opBinUnicode8
	if !unicode || n > maxWord {
		part, err := m.in.skip(n)
		if err != nil {
			return err
		}
		return m.push(blob{part: part, utf8: unicode})
	}
	b, err := m.in.take(int(n)) //nolint:gosec // at most maxWord
	if err != nil {
		return err
	}
	if !utf8.Valid(b) {
		return errNotWeights
	}
	return m.push(word(b))
}

func (m *machine) remember(op byte) error {
	i, err := m.in.number(indices[op])
	if err != nil {
		return err
	}
	index := uint32(i) //nolint:gosec // of four bytes at most
	if op == opBinPut || op == opLongBinPut {
		return m.memoize(index)
	}
	v, known := m.memo[index]
	if !known {
		return errNotWeights
	}
	return m.push(v)
}

func (m *machine) memoize(index uint32) error {
	if len(m.stack) == 0 || len(m.memo) == maxMemo {
		return errNotWeights
	}
	m.memo[index] = m.stack[len(m.stack)-1]
	return nil
}

func (m *machine) integer(op byte) error {
	size := map[byte]int{opBinInt: 4, opBinInt1: 1, opBinInt2: 2}[op]
	signed := op == opBinInt
	if op == opLong1 {
		n, err := m.in.number(1)
		if err != nil || n > 8 {
			return errNotWeights
		}
		size, signed = int(n), true //nolint:gosec // at most 8
	}
	v, err := m.in.number(size)
	if err != nil {
		return err
	}
	i := int64(v) //nolint:gosec // as Python means it
	if unused := 64 - 8*size; signed && size > 0 {
		i = i << unused >> unused
	}
	return m.push(i)
}

func (m *machine) tuple(op byte) error {
	if op == opTuple {
		items, err := m.popMark()
		if err != nil {
			return err
		}
		return m.pushTuple(items)
	}
	n := map[byte]int{opEmptyTuple: 0, opTuple1: 1, opTuple2: 2, opTuple3: 3}[op]
	if len(m.stack) < n {
		return errNotWeights
	}
	items := m.stack[len(m.stack)-n:]
	m.stack = m.stack[:len(m.stack)-n]
	return m.pushTuple(items)
}

func (m *machine) items(op byte) error {
	if op == opSetItems {
		pairs, err := m.popMark()
		if err != nil {
			return err
		}
		return m.set(pairs)
	}
	if len(m.stack) < 3 {
		return errNotWeights
	}
	pair := m.stack[len(m.stack)-2:]
	m.stack = m.stack[:len(m.stack)-2]
	return m.set(pair)
}

// global pushes a name, if it is one of those that are admitted.
func (m *machine) global(op byte) error {
	var module, name string
	var err error
	if op == opGlobal {
		if module, err = m.in.line(); err == nil {
			name, err = m.in.line()
		}
	} else {
		second, secondErr := m.pop()
		first, firstErr := m.pop()
		a, firstOK := first.(word)
		b, secondOK := second.(word)
		if firstErr != nil || secondErr != nil || !firstOK || !secondOK {
			return errNotWeights
		}
		module, name = string(a), string(b)
	}
	if err != nil {
		return err
	}
	g, err := admit(module, name)
	if err != nil {
		return err
	}
	return m.push(g)
}

func (m *machine) apply(op byte) error {
	second, secondErr := m.pop()
	first, firstErr := m.pop()
	if firstErr != nil || secondErr != nil {
		return errNotWeights
	}
	made := first
	var err error
	if op == opReduce {
		made, err = m.call(first, second)
	} else {
		err = build(first, second)
	}
	if err != nil {
		return err
	}
	return m.push(made)
}
