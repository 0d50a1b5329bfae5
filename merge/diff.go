package merge

import (
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/internal/text"
)

// Diff returns one line on the first difference between the layout here and
// that of the contract; empty when they are equal.
func Diff(here, contract *Layout) string {
	if here.digest == contract.digest {
		return ""
	}
	for i := range min(here.Len(), contract.Len()) {
		h, c := here.tensors[i], contract.tensors[i]
		switch {
		case h.Name != c.Name:
			return fmt.Sprintf("tensor %d is named %q here and %q in the contract", i, text.Clip(h.Name, 128), text.Clip(c.Name, 128))
		case h.DType != c.DType || !slices.Equal(h.Shape, c.Shape):
			return fmt.Sprintf("tensor %d %q is %s here and %s in the contract", i, text.Clip(h.Name, 128), h, c)
		}
	}
	if i := contract.Len(); here.Len() > i {
		return fmt.Sprintf("there are %d tensors here and %d in the contract: the first extra one is %q",
			here.Len(), i, text.Clip(here.tensors[i].Name, 128))
	}
	i := here.Len()
	return fmt.Sprintf("there are %d tensors here and %d in the contract: the first missing one is %q",
		i, contract.Len(), text.Clip(contract.tensors[i].Name, 128))
}
