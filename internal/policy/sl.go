package policy

import (
	"slices"
	"strings"

	"github.com/swarmd/swarmd/identity/pattern"
)

// slPath is in the SPIFFE IDs of SLs alone.
const slPath = "/swarm/sl"

// ofSL reports whether an SL asks, for ranks beside the program that it runs itself, and not an operator.
func ofSL(submitter string) bool {
	return strings.HasSuffix(submitter, slPath) || strings.Contains(submitter, slPath+"/")
}

// namesSLs reports whether a list has SLs in mind that match: one that is for everybody was written when operators alone could ask.
func namesSLs(list pattern.List, submitter string) bool {
	return slices.ContainsFunc(list, func(p pattern.Pattern) bool { return ofSL(p.String()) && p.Match(submitter) })
}
