package merge

import (
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/internal/text"
)

// wireParam is the parameter that every method has: the type in which
// parameters travel. It is not printed when it is not given, and so stands
// beside a spec's params, which are numbers.
const wireParam = "wire"

// wireTypes are the types that it takes.
var wireTypes = []DType{BFloat16, Float16}

// Wires returns the names that the parameter wire of every method takes, sorted.
func Wires() []string {
	names := make([]string, len(wireTypes))
	for i, d := range wireTypes {
		names[i] = d.String()
	}
	return names
}

func parseWire(value string) (DType, error) {
	for _, d := range wireTypes {
		if strings.EqualFold(value, d.String()) {
			return d, nil
		}
	}
	return 0, fmt.Errorf("parameter %s is %q: want %s, or leave it out to send all elements in their own type",
		wireParam, text.Clip(value, 32), strings.Join(Wires(), " or "))
}

// Wire returns the type in which differences of float32 elements from the last
// committed model travel: BFloat16 or Float16; 0 if elements travel as they are.
func (m *Method) Wire() DType { return m.wire }

// Codec encodes leaves for the wire and decodes them. A float32 element travels
// as its difference from the last committed model, the base, in 16 bits;
// elements of other types travel as they are, and padding does not. It is
// immutable and safe for concurrent use.
type Codec struct {
	layout *Layout
	add    func(y []float32, code []byte)
	sub    func(code []byte, x, b []float32)
}

// NewCodec returns the codec of the method's wire type, nil if elements travel
// as they are: without such a type, or when the layout has no float32 element.
func (m *Method) NewCodec(l *Layout) *Codec {
	some := false
	for i := range l.tensors {
		some = some || l.tensors[i].DType == Float32 && l.tensors[i].Elements() > 0
	}
	switch {
	case !some:
		return nil
	case m.wire == BFloat16:
		return &Codec{layout: l, add: addBFloat16, sub: subBFloat16}
	case m.wire == Float16:
		return &Codec{layout: l, add: addFloat16, sub: subFloat16}
	}
	return nil
}

// spans are a leaf's segments; the array keeps most leaves from allocating.
type spans [16]Segment

// Len returns how many bytes travel for a leaf in range: never more than it has.
func (c *Codec) Len(leaf int) int {
	var room spans
	n := 0
	for _, s := range c.layout.AppendSegments(room[:0], leaf) {
		n += travelling(s)
	}
	return n
}

// Total returns how many bytes travel for a whole model.
func (c *Codec) Total() int64 {
	var n int64
	for leaf := range c.layout.Leaves() {
		n += int64(c.Len(leaf))
	}
	return n
}

func travelling(s Segment) int {
	if s.DType == Float32 {
		return (s.End - s.Start) / 2
	}
	return s.End - s.Start
}

// Encode writes the wire form of the leaf x to code. x and base have the length
// of the leaf, code that of Len. A difference that is too large for the wire
// type becomes its largest finite value; a NaN or infinity in x remains one.
func (c *Codec) Encode(leaf int, code, x, base []byte) error {
	if err := c.check(leaf, code, x, base); err != nil {
		return err
	}
	var room spans
	var xs, bs [block]float32
	for _, s := range c.layout.AppendSegments(room[:0], leaf) {
		n := travelling(s)
		if s.DType != Float32 {
			copy(code[:n], x[s.Start:s.End])
			code = code[n:]
			continue
		}
		for at := s.Start; at < s.End; at += block * 4 {
			end := min(at+block*4, s.End)
			c.sub(code[:(end-at)/2], load32(Float32, x[at:end], xs[:]), load32(Float32, base[at:end], bs[:]))
			code = code[(end-at)/2:]
		}
	}
	return nil
}

// Decode decodes code. y holds the leaf of the base, which is overwritten by
// the result. Lengths are those of Encode; code may hold any bytes. A sum
// beyond float32 becomes the largest finite value; a NaN or infinity in code
// remains one.
func (c *Codec) Decode(leaf int, y, code []byte) error {
	if err := c.check(leaf, code, y, y); err != nil {
		return err
	}
	var room spans
	var ys [block]float32
	segments := c.layout.AppendSegments(room[:0], leaf)
	clearPadding(y, segments)
	for _, s := range segments {
		n := travelling(s)
		if s.DType != Float32 {
			copy(y[s.Start:s.End], code[:n])
			code = code[n:]
			continue
		}
		for at := s.Start; at < s.End; at += block * 4 {
			end := min(at+block*4, s.End)
			v := load32(Float32, y[at:end], ys[:])
			c.add(v, code[:(end-at)/2])
			store32(Float32, y[at:end], v)
			code = code[(end-at)/2:]
		}
	}
	return nil
}

// RoundTrip encodes the leaf x to code and overwrites x with what code decodes
// to: what the receivers have. A second call changes nothing.
func (c *Codec) RoundTrip(leaf int, code, x, base []byte) error {
	if err := c.Encode(leaf, code, x, base); err != nil {
		return err
	}
	copy(x, base)
	return c.Decode(leaf, x, code)
}

func (c *Codec) check(leaf int, code, x, base []byte) error {
	if leaf < 0 || leaf >= c.layout.Leaves() {
		return fmt.Errorf("leaf %d of %d", leaf, c.layout.Leaves())
	}
	n, k := c.layout.LeafLen(leaf), c.Len(leaf)
	if len(x) != n || len(base) != n || len(code) != k {
		return fmt.Errorf("leaf %d: %d bytes, %d of the committed model and %d that travel, want %d, %d and %d",
			leaf, len(x), len(base), len(code), n, n, k)
	}
	return nil
}
