package identity

import "fmt"

// The longest names, in bytes.
const (
	// MaxName bounds a node name: it must fit a DNS label and a SPIFFE path segment.
	MaxName = 63
	// MaxContractName bounds the name of a training contract.
	MaxContractName = 128
)

// ValidName reports whether s may name a node: 1 to 63 of A-Z a-z 0-9 . _ - that start with a letter or digit.
func ValidName(s string) error { return validName("name", s, MaxName) }

// ValidContractName reports whether s may name a contract: as ValidName, up to 128 bytes.
func ValidContractName(s string) error { return validName("contract name", s, MaxContractName) }

func validName(what, s string, limit int) error {
	if s == "" {
		return fmt.Errorf("%s is empty: give 1 to %d characters of A-Z a-z 0-9 . _ -", what, limit)
	}
	if len(s) > limit {
		return fmt.Errorf("%s %.20q… has %d bytes: at most %d are allowed", what, s, len(s), limit)
	}
	for i := range len(s) {
		if c := s[i]; !alnum(c) && (i == 0 || c != '.' && c != '_' && c != '-') {
			return fmt.Errorf("%s %q has the character %q at position %d: use A-Z a-z 0-9 . _ - and start with a letter or digit", what, s, c, i+1)
		}
	}
	return nil
}

func alnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
