// Package shellwords divides text into words as a shell does.
package shellwords

import (
	"errors"
	"strings"
)

// Split divides text into words as a POSIX shell does: at blanks and line feeds, except between single or double quotes and behind a
// backslash. Nothing is expanded.
func Split(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune // 0 outside of quotes
	inWord, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteByte('\\') // it means itself there
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case strings.ContainsRune(" \t\n\r", r):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if escaped {
		return nil, errors.New("nothing follows the last backslash")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// Join is words as one text, which a shell, and Split, divide into the same words.
func Join(words []string) string {
	var all []string
	for _, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\r\n'\"\\$`&|;<>()*?[]{}#~!") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		all = append(all, w)
	}
	return strings.Join(all, " ")
}
