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

	RoleAudit = "audit" // an auditor's swarmctl: it reads, and changes nothing
)

// Role is what other parts derive from a role.
type Role struct {
	Name  string // in SPIFFE IDs, the API, the state, labels, and options of swarmctl stop
	Title string // in words
	DNS   string // DNS name in the SVIDs of SPIRE; empty: none, as it serves nothing
	Node  bool   // nodes of it are registered, and others see them
	Shell bool   // it is taken by swarmctl
	Other bool   // it is no component of its own: nothing is run, and to be stopped, in this role
	Beats bool   // its nodes register with an SN and send heartbeats to the leader
}

// Roles lists all roles: who is used before who uses it. Two of the DNS names are the original's.
func Roles() []Role {
	return []Role{
		{Name: RoleSN, Title: "SN", DNS: "swarm-network-node", Node: true},
		{Name: RoleSL, Title: "SL", DNS: "swarm-learning-node", Node: true, Beats: true},
		{Name: RoleSWOP, Title: "SWOP", DNS: "swarm-operator-node", Node: true, Beats: true},
		{Name: RoleSWCI, Title: "SWCI", Shell: true},
		{Name: RoleAudit, Title: "auditor", Shell: true, Other: true},
	}
}

// RoleOf returns the role of a name, or the zero value.
func RoleOf(name string) Role {
	for _, r := range Roles() {
		if r.Name == name {
			return r
		}
	}
	return Role{}
}

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
