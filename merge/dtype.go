package merge

import (
	"errors"
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/internal/text"
)

// DType is the element type of a tensor. The zero value is no type.
type DType uint8

// The element types that can be merged. Values are internal; the wire and the
// canonical layout carry names.
const (
	Float64 DType = iota + 1
	Float32
	Float16
	BFloat16
	Uint8
	Int8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Bool
)

// ErrDType is wrapped by every error about an element type that can not be
// merged.
var ErrDType = errors.New("element type can not be merged")

var dtypes = [...]struct {
	name string
	size int
}{
	Float64:  {"float64", 8},
	Float32:  {"float32", 4},
	Float16:  {"float16", 2},
	BFloat16: {"bfloat16", 2},
	Uint8:    {"uint8", 1},
	Int8:     {"int8", 1},
	Int16:    {"int16", 2},
	Uint16:   {"uint16", 2},
	Int32:    {"int32", 4},
	Uint32:   {"uint32", 4},
	Int64:    {"int64", 8},
	Uint64:   {"uint64", 8},
	Bool:     {"bool", 1},
}

// ParseDType returns the type of the given canonical name ("float32").
func ParseDType(name string) (DType, error) {
	for i := Float64; i <= Bool; i++ {
		if dtypes[i].name == name {
			return i, nil
		}
	}
	shown := text.Clip(name, 32)
	switch {
	case strings.HasPrefix(name, "complex"):
		return 0, fmt.Errorf("%w: %s: send real and imaginary parts as two real tensors", ErrDType, shown)
	case strings.HasPrefix(name, "float8"), strings.HasPrefix(name, "fp8"):
		return 0, fmt.Errorf("%w: %s: convert it to bfloat16 first", ErrDType, shown)
	}
	return 0, fmt.Errorf("%w: %q", ErrDType, shown)
}

// Valid reports whether d is one of the constants.
func (d DType) Valid() bool { return d >= Float64 && d <= Bool }

// Size returns the bytes of one element; 0 for an invalid type.
func (d DType) Size() int {
	if !d.Valid() {
		return 0
	}
	return dtypes[d].size
}

// String returns the canonical name.
func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}
