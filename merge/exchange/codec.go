package exchange

import (
	"errors"
	"fmt"
	"io"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// newCodec returns how leaves travel in this attempt: nil if as they are. There is a codec when the method names a wire type
// and a model is committed, which the state decides for all participants alike.
func (r *run) newCodec() *merge.Codec {
	if r.slots.Base == nil {
		return nil
	}
	return r.method.NewCodec(r.Layout)
}

// leafHeader is that of the frame that carries a leaf.
func (r *run) leafHeader(leaf int) wire.Header {
	if r.codec == nil {
		return wire.Header{Kind: wire.KindLeaf, Arg: uint32(leaf), Length: uint32(r.Layout.LeafLen(leaf))}
	}
	return wire.Header{Kind: wire.KindDiff, Arg: uint32(leaf), Length: uint32(r.codec.Len(leaf))}
}

// errNoBase ends an attempt at a node that has no committed model while others do.
var errNoBase = errors.New("no committed model is held here")

// strange fails the attempt when participant i's frame shows that it and this node do not both count from a committed model,
// and returns the error for a frame that must not stand here. In the first round nobody has such a model, whatever one says.
func (r *run) strange(i int, h wire.Header) error {
	switch {
	case h.Kind == wire.KindDiff && r.slots.Base == nil && r.method.Wire() != 0 && r.Round > 1:
		// Only hearsay: where nobody has a model, as after training began anew, one frame would else make this node accuse itself.
		r.heard(i, r.Self, "holds no committed model, from which "+r.Participants[i].Node+" counts what it sends")
	case h.Kind == wire.KindLeaf && r.codec != nil:
		r.fail(i, "sends weights as they are: it holds no committed model from which to count", errNoBase)
	}
	return wire.Unexpected(h)
}

// measure is given a leaf as its receiver has it and, where that was read anyway, as the committed model has it.
type measure func(leaf int, x, base []byte) error

// appendLeaf appends the frame of a leaf that is read from a slot, and has it measured if there is something to do that.
func (r *run) appendLeaf(b []byte, from io.ReaderAt, leaf int, with measure) ([]byte, error) {
	h := r.leafHeader(leaf)
	b = h.Append(b)
	at := len(b)
	b = b[:at+int(h.Length)]
	if r.codec == nil {
		err := readLeaf(from, r.Layout, leaf, b[at:])
		if err == nil && with != nil {
			err = with(leaf, b[at:], nil)
		}
		return b, err
	}
	n := r.Layout.LeafLen(leaf)
	x, base := getLeaf(r.Layout), getLeaf(r.Layout)
	defer putLeaf(x)
	defer putLeaf(base)
	if err := readLeaf(from, r.Layout, leaf, x[:n]); err != nil {
		return b, err
	}
	if err := readLeaf(r.slots.Base, r.Layout, leaf, base[:n]); err != nil {
		return b, fmt.Errorf("the committed model: %w", err)
	}
	if with == nil {
		return b, r.codec.Encode(leaf, b[at:], x[:n], base[:n])
	}
	err := r.codec.Travel(leaf, b[at:], x[:n], base[:n])
	if err == nil {
		err = with(leaf, x[:n], base[:n])
	}
	return b, err
}

// takeLeaf reads a leaf's payload, after its header, into buf, which has the leaf's length. Came, which may be nil, is given what
// has travelled.
func (r *run) takeLeaf(from io.Reader, leaf int, buf []byte, came func(sent []byte)) error {
	if r.codec == nil {
		_, err := io.ReadFull(from, buf)
		if err == nil && came != nil {
			came(buf)
		}
		return err
	}
	room := getLeaf(r.Layout)
	defer putLeaf(room)
	code := room[:r.codec.Len(leaf)]
	if _, err := io.ReadFull(from, code); err != nil {
		return err
	}
	if came != nil {
		came(code)
	}
	if err := r.readBase(leaf, buf); err != nil {
		return err
	}
	return r.codec.Decode(leaf, buf, code)
}

// travel makes of a leaf of this node's, in place, what the others have of it: who owns which leaf must not change what is
// merged. Keep, which may be nil, is given what travels, and must not hold on to it.
func (r *run) travel(leaf int, b []byte, keep func(leaf int, sent []byte)) error {
	sent := b
	if r.codec != nil {
		base, code := getLeaf(r.Layout), getLeaf(r.Layout)
		defer putLeaf(base)
		defer putLeaf(code)
		if err := r.readBase(leaf, base[:len(b)]); err != nil {
			return err
		}
		sent = code[:r.codec.Len(leaf)]
		if err := r.codec.Travel(leaf, sent, b, base[:len(b)]); err != nil {
			return r.stepFailed("shorten a leaf", err)
		}
	}
	if keep != nil {
		keep(leaf, sent)
	}
	return nil
}
