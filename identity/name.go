package identity

import "fmt"

// MaxName bounds a node name, in bytes: it must fit a DNS label and a SPIFFE path segment.
const MaxName = 63

// ValidName reports whether s may name a node: 1 to 63 of A-Z a-z 0-9 . _ - that start with a letter or digit.
func ValidName(s string) error {
	if s == "" {
		return fmt.Errorf("name is empty: give 1 to %d characters of A-Z a-z 0-9 . _ -", MaxName)
	}
	if len(s) > MaxName {
		return fmt.Errorf("name %.20q… has %d bytes: at most %d are allowed", s, len(s), MaxName)
	}
	for i := range len(s) {
		if c := s[i]; !alnum(c) && (i == 0 || c != '.' && c != '_' && c != '-') {
			return fmt.Errorf("name %q has the character %q at position %d: use A-Z a-z 0-9 . _ - and start with a letter or digit", s, c, i+1)
		}
	}
	return nil
}

func alnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
