// Package naming has the words that all parts share: the roles of nodes, and what nodes and contracts may be called. It is pure: the
// replicated state decides by it.
package naming

import "fmt"

// The roles of nodes, as SPIFFE IDs, the API and the state name them.
const (
	RoleSN   = "sn"   // Swarm Network node: raft member and API server
	RoleSL   = "sl"   // Swarm Learning node: trains beside its data
	RoleSWOP = "swop" // operator node: executes tasks on its host
	RoleSWCI = "swci" // a user's command shell, swarmctl
)

// Bounds of names, in bytes.
const (
	MaxNode     = 63 // it must fit a DNS label and a SPIFFE path segment
	MaxContract = 128
)

// CheckNode returns why s may not name a node: 1 to 63 of A-Z a-z 0-9 . _ - that start with a letter or digit.
func CheckNode(s string) error { return check(s, MaxNode) }

// ValidNode reports whether s may name a node.
func ValidNode(s string) bool { return check(s, MaxNode) == nil }

// ValidContract reports whether s may name a contract, as ValidNode with up to 128 characters.
func ValidContract(s string) bool { return check(s, MaxContract) == nil }

func check(s string, limit int) error {
	if s == "" {
		return fmt.Errorf("name is empty: give 1 to %d characters of A-Z a-z 0-9 . _ -", limit)
	}
	if len(s) > limit {
		return fmt.Errorf("name %.20q… has %d bytes: at most %d are allowed", s, len(s), limit)
	}
	for i := range len(s) {
		if c := s[i]; !Alphanumeric(c) && (i == 0 || c != '.' && c != '_' && c != '-') {
			return fmt.Errorf("name %q has the character %q at position %d: use A-Z a-z 0-9 . _ - and start with a letter or digit", s, c, i+1)
		}
	}
	return nil
}

// Alphanumeric reports whether c is a letter or digit of ASCII.
func Alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
