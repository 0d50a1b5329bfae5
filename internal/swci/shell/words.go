package shell

import (
	"errors"
	"strings"
)

// Words splits a line at blanks. Quotes of either kind keep blanks in a word; a backslash keeps the next character as it
// is, but not between single quotes. A line that ends inside quotes is an error.
func Words(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun := false
	quote := rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			begun, quote = true, r
		case r == ' ' || r == '\t':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if escaped {
		return nil, errors.New("nothing follows the last backslash")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
