// Package pickle reads and writes the files in which release 2.3 of the original's client keeps weights: Python's pickles of a dict from
// names to numpy arrays. Reading executes nothing: a pickle is a program, of which this package knows the few instructions that such a
// dict needs, and the few names of numpy's; whatever else it holds is an error.
package pickle

import (
	"errors"
	"fmt"
	"io"

	"github.com/swarmd/swarmd/internal/bridge/original/array"
)

// Bounds of what a pickle may make beside arrays. Python writes a dict in parts of a thousand entries.
const (
	maxStack  = 1 << 16
	maxMemo   = 1 << 21
	maxTuple  = 2 * array.MaxDims
	maxWord   = array.MaxName
	firstLong = 4 << 10
)

// errNotWeights is wrapped by every error about a pickle of something else.
var errNotWeights = errors.New("it is no pickle of a dict from names to numpy arrays")

// Weights is what a pickle holds.
type Weights struct {
	Arrays []array.Array // in the order of the dict; they read the file
	Module string        // of numpy's, as the program's release has it: Write needs it
}

// Read reads a pickle of protocol 2 to 5. The arrays read from later.
func Read(from io.ReaderAt, size int64) (Weights, error) {
	m := machine{in: input{from: from, size: size}, memo: make(map[uint32]any), weights: Weights{Module: "numpy.core.numeric"}}
	for {
		op, err := m.in.take(1)
		if err == nil && op[0] == opStop {
			return m.result()
		}
		if err == nil {
			err = m.step(op[0])
		}
		if err != nil {
			return Weights{}, fmt.Errorf("read pickle at byte %d: %w", m.in.at, err)
		}
	}
}

func (m *machine) result() (Weights, error) {
	if len(m.stack) != 1 || m.made == nil || m.stack[0] != any(m.made) {
		return Weights{}, fmt.Errorf("read pickle: %w", errNotWeights)
	}
	for i := range m.weights.Arrays {
		if err := m.weights.Arrays[i].Check(); err != nil {
			return Weights{}, fmt.Errorf("read pickle: %w", err)
		}
	}
	return m.weights, nil
}

// machine is what executes a pickle.
type machine struct {
	in      input
	stack   []any
	memo    map[uint32]any
	made    *dict // the one that there may be
	weights Weights
}

func (m *machine) push(v any) error {
	if len(m.stack) == maxStack {
		return fmt.Errorf("%w: it nests too deeply", errNotWeights)
	}
	m.stack = append(m.stack, v)
	return nil
}

func (m *machine) pop() (any, error) {
	if len(m.stack) == 0 {
		return nil, errNotWeights
	}
	v := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return v, nil
}

// popMark returns what stands above the last mark and takes both away.
func (m *machine) popMark() ([]any, error) {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if m.stack[i] == any(mark{}) {
			above := m.stack[i+1:]
			m.stack = m.stack[:i]
			return above, nil
		}
	}
	return nil, errNotWeights
}

func (m *machine) pushTuple(items []any) error {
	if len(items) > maxTuple {
		return errNotWeights
	}
	return m.push(append(tuple(nil), items...))
}

// set puts pairs of name and array into the dict on top of the stack.
func (m *machine) set(pairs []any) error {
	top, err := m.pop()
	if err != nil {
		return err
	}
	d, ok := top.(*dict)
	if !ok || len(pairs)%2 != 0 {
		return errNotWeights
	}
	for i := 0; i < len(pairs); i += 2 {
		name, isName := pairs[i].(word)
		a, isArray := pairs[i+1].(*ndarray)
		switch _, twice := d.names[string(name)]; {
		case !isName:
			return fmt.Errorf("%w: a name is not a text, or too long", errNotWeights)
		case !isArray || !a.filled:
			return fmt.Errorf("%w: %q is not a numpy array", errNotWeights, name)
		case twice:
			return fmt.Errorf("%w: %q is there twice", errNotWeights, name)
		case len(d.names) == array.MaxCount:
			return fmt.Errorf("%w: there are more than %d arrays", errNotWeights, array.MaxCount)
		}
		d.names[string(name)] = len(d.names)
		named := a.Array
		named.Name = string(name)
		m.weights.Arrays, m.weights.Module = append(m.weights.Arrays, named), a.module
	}
	return m.push(d)
}
