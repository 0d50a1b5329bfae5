package messages

import (
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/merge"
)

// TermsDifference says in one line what of a session's terms is not the contract's, or "" when nothing can be told. What a
// session leaves open differs from nothing.
func TermsDifference(mine, theirs state.Terms) string {
	var parts []string
	if mine.LayoutDigest != theirs.LayoutDigest {
		if d := layoutDifference(mine.Layout, theirs.Layout); d != "" {
			parts = append(parts, d)
		}
	}
	if mine.Method != "" && mine.Method != theirs.Method {
		parts = append(parts, fmt.Sprintf("the merge method is %s here and %s in the contract", mine.Method, theirs.Method))
	}
	if mine.MinPeers != 0 && mine.MinPeers != theirs.MinPeers {
		parts = append(parts, fmt.Sprintf("minPeers is %d here and %d in the contract", mine.MinPeers, theirs.MinPeers))
	}
	if mine.Weights != theirs.Weights {
		parts = append(parts, fmt.Sprintf("nodeWeightage is %s here and %s in the contract", weightsInWords(mine), weightsInWords(theirs)))
	}
	return strings.Join(parts, "; ")
}

func weightsInWords(t state.Terms) string {
	if t.Weights == state.WeightsSamples {
		return `"samples"`
	}
	return "a number"
}

// layoutDifference says in one line where two layouts part, or "" when one of them can't be read.
func layoutDifference(mine, theirs []byte) string {
	a, err := merge.ParseLayout(mine)
	if err != nil {
		return ""
	}
	b, err := merge.ParseLayout(theirs)
	if err != nil {
		return ""
	}
	return merge.Diff(a, b)
}
