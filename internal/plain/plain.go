// Package plain makes text that came from a peer or a program safe to show.
//
// A terminal obeys escape sequences wherever they come from: a node's name or a line that a program prints could move the
// cursor, hide text, set the window's title or answer in the user's name.
package plain

import (
	"strings"
	"unicode"
)

// Text returns s without escape sequences, control characters and marks that reorder what is read. Tabs stay.
func Text(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	in := text
	for _, r := range s {
		var show bool
		if in, show = in.next(r); show && !hidden(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line is Text on one line: line feeds and tabs become blanks.
func Line(s string) string {
	return Text(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, s))
}

// hidden tells whether a rune controls a terminal or the order of reading instead of being read.
func hidden(r rune) bool {
	return r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// place is where in an escape sequence (ECMA-48) a text stands.
type place int

const (
	text     place = iota
	escaped        // after ESC
	sequence       // after CSI: parameters, ended by a letter
	message        // after OSC and the like: free text, ended by BEL or ST
	ending         // in a message, after ESC
)

// Runes that open and end sequences.
const (
	bel, can, esc, csi, st = 0x07, 0x18, 0x1b, 0x9b, 0x9c
	// Strings that a terminal takes for itself: DCS, SOS, OSC, PM, APC, after ESC and as one rune.
	openers, openers1 = "PX]^_", "\u0090\u0098\u009d\u009e\u009f"
)

// next returns the place after r, and whether r is read at all.
func (in place) next(r rune) (after place, show bool) {
	switch {
	case r == can || in == message && (r == bel || r == st):
		return text, false
	case r == esc && in == message:
		return ending, false
	case r == esc:
		return escaped, false
	case in == message:
		return message, false
	case r == csi || in == escaped && r == '[':
		return sequence, false
	case strings.ContainsRune(openers1, r) || in == escaped && strings.ContainsRune(openers, r):
		return message, false
	case in == escaped && r >= ' ' && r <= '/':
		return escaped, false // an intermediate: the sequence goes on
	case in == sequence && r >= ' ' && r <= '?':
		return sequence, false
	case in == text:
		return text, true
	}
	return text, false // the rune that ends a sequence
}
