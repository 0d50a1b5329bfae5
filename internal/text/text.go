// Package text makes text that came from a peer or a program safe to show, and bounds it.
//
// A terminal obeys escape sequences wherever they come from: a node's name or a line that a program prints could move the
// cursor, hide text, set the window's title or answer in the user's name.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain returns s without escape sequences, control characters and marks that reorder what is read. Tabs stay.
func Plain(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	in := read
	for _, r := range s {
		var show bool
		if in, show = in.next(r); show && !hidden(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line is Plain on one line: line feeds and tabs become blanks.
func Line(s string) string {
	return Plain(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, s))
}

// hidden reports whether a rune controls a terminal or the order of reading instead of being read.
func hidden(r rune) bool {
	return r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// place is where in an escape sequence (ECMA-48) a text stands.
type place int

const (
	read     place = iota
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
		return read, false
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
	case in == read:
		return read, true
	}
	return read, false // the rune that ends a sequence
}

// Printable returns s with a rune instead of each that does not print: control characters, marks that reorder what is read, and
// bytes that are not UTF-8. It is one line. Unlike Line it leaves of an escape sequence what follows its first character, so use it where
// such a sequence harms nobody: in logs, in errors, and in what goes to other nodes.
func Printable(s string, instead rune) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return instead
		}
		return r
	}, strings.ToValidUTF8(s, string(instead)))
}

// Visible reports whether s has visible ASCII characters only.
func Visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Cut returns the first limit bytes of s without a character that is cut in two. Bytes that are not UTF-8 are left out, as
// protobuf sends no such text.
func Cut(s string, limit int) string {
	if len(s) > limit {
		s = s[:max(limit, 0)]
		for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax; i-- {
			if utf8.RuneStart(s[i]) {
				if !utf8.FullRuneInString(s[i:]) {
					s = s[:i]
				}
				break
			}
		}
	}
	return strings.ToValidUTF8(s, "")
}

const mark = "…"

// Clip is Cut with a mark at the end if something is missing; with it the text has limit bytes at most.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return strings.ToValidUTF8(s, "")
	}
	return Cut(s, limit-len(mark)) + mark
}
