package yamlfile

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// plain is what YAML takes as it is, in lists and maps, as nothing but text, a number, or a truth value.
var plain = regexp.MustCompile(`^[A-Za-z0-9/._$(][^\x00-\x1f\x7f-\x{a0}\x{2000}-\x{206f}\x{fff0}-\x{ffff}]*$`)

// Scalar writes a text in one line, as an item of a list or the value of a field that has a line of its own.
func Scalar(s string) string {
	bare := plain.MatchString(s) && !strings.Contains(s, ": ") && !strings.Contains(s, " #") && !strings.HasSuffix(s, ":") && s == strings.TrimSpace(s) &&
		!strings.HasPrefix(s, "...")
	switch strings.ToLower(s) {
	case "null", "y", "n":
		bare = false
	}
	switch {
	case bare:
		return s
	case !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' && !unicode.IsLetter(r) }):
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return doubleQuoted(s)
}

// doubleQuoted writes a text in double quotes, with escapes that YAML knows.
func doubleQuoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r >= ' ' && r <= '~' || unicode.IsLetter(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
