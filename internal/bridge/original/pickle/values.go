package pickle

import (
	"fmt"
	"io"

	"github.com/swarmd/swarmd/internal/bridge/original/array"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/merge"
)

// The values that stand on a machine's stack: nil, bool, int64, and these.
type (
	// word is a short text: a name, or what an array's parameters say.
	word string
	// blob is bytes of the file, or a long text that stands for bytes.
	blob struct {
		part  *io.SectionReader
		utf8  bool // it is a text
		latin bool // it is such a text, each character being one byte
	}
	tuple  []any
	global string
	mark   struct{}
	// dict is the weights, in order.
	dict struct{ names map[string]int }
	// kind is a numpy.dtype. Its byte order comes after it was made.
	kind struct {
		dtype merge.DType
		order string
	}
	// ndarray is a numpy.ndarray. One that was made by _reconstruct is filled later.
	ndarray struct {
		array.Array
		module string // of numpy's that made it
		filled bool
	}
)

// The names that a pickle of weights may have. Each stands for what is done here when it is called, and nothing is ever executed.
const (
	nameDType   = global("numpy.dtype")
	nameNDArray = global("numpy.ndarray")
	nameEncode  = global("_codecs.encode") // by which protocols before 3 write bytes
	nameBytes   = global("__builtin__.bytes")

	fromBuffer  = "._frombuffer"
	reconstruct = "._reconstruct"
)

// makers are the functions of numpy's that make arrays, in the modules in which its releases have them.
var makers = map[global]struct{ module, function string }{
	"numpy.core.numeric._frombuffer":      {"numpy.core.numeric", fromBuffer},
	"numpy._core.numeric._frombuffer":     {"numpy._core.numeric", fromBuffer},
	"numpy.core.multiarray._reconstruct":  {"numpy.core.numeric", reconstruct},
	"numpy._core.multiarray._reconstruct": {"numpy._core.numeric", reconstruct},
}

func admit(module, name string) (global, error) {
	g := global(module + "." + name)
	if _, maker := makers[g]; maker || g == nameDType || g == nameNDArray || g == nameEncode || g == nameBytes {
		return g, nil
	}
	return "", fmt.Errorf("%w: it names %s", errNotWeights, text.Printable(text.Clip(string(g), 80), '?'))
}

// codes are the types of elements as numpy writes them.
var codes = map[word]merge.DType{
	"f8": merge.Float64, "f4": merge.Float32, "f2": merge.Float16, "b1": merge.Bool,
	"i1": merge.Int8, "i2": merge.Int16, "i4": merge.Int32, "i8": merge.Int64,
	"u1": merge.Uint8, "u2": merge.Uint16, "u4": merge.Uint32, "u8": merge.Uint64,
}

// codeOf is a type as numpy writes it.
func codeOf(d merge.DType) (word, bool) {
	for code, of := range codes {
		if of == d {
			return code, true
		}
	}
	return "", false
}
