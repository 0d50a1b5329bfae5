package swci

import (
	"iter"
	"strings"

	"github.com/swarmd/swarmd/internal/shellwords"
)

// lex takes a line of a script apart. The last argument of a command that takes it verbatim is what stands there, as in the original, with
// all its blanks and quotes: a line of a YAML file. It may be one quoted word too, as in a shell.
func (g *Grammar) lex(line string) ([]string, error) {
	line = strings.TrimSpace(line)
	c := g.named(strings.Fields(line))
	if c == nil || !c.Verbatim {
		return shellwords.Split(withoutComment(plainBlanks(line)))
	}
	words, rest, ok := cutWords(line, len(c.compiled.parts)-1)
	if !ok {
		return shellwords.Split(line)
	}
	if one, err := shellwords.Split(rest); err == nil && len(one) == 1 && strings.ContainsAny(rest[:1], `'"`) {
		rest = one[0]
	}
	return append(words, rest), nil
}

// webBlank is a blank that a page of the web does not break: who copies a command from one can't see which blanks are.
const webBlank = "\u00a0"

// plainBlanks makes blanks of those outside of quotes. What is quoted means itself.
func plainBlanks(line string) string {
	var plain strings.Builder
	from := 0
	for i := range unquoted(line) {
		if strings.HasPrefix(line[i:], webBlank) {
			plain.WriteString(line[from:i] + " ")
			from = i + len(webBlank)
		}
	}
	return plain.String() + line[from:]
}

// withoutComment returns what of a line stands before a # that is a word by itself, outside of quotes. A value may begin with #.
func withoutComment(line string) string {
	blank := func(i int) bool { return line[i] == ' ' || line[i] == '\t' }
	for i := range unquoted(line) {
		if line[i] == '#' && i > 0 && blank(i-1) && i+1 < len(line) && blank(i+1) {
			return line[:i]
		}
	}
	return line
}

// unquoted are the places of the bytes outside of quotes that no backslash stands before.
func unquoted(line string) iter.Seq[int] {
	return func(yield func(int) bool) {
		var quote byte // 0 outside of quotes
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case c == '\\' && quote != '\'':
				i++ // what follows means itself
			case quote != 0 && c == quote:
				quote = 0
			case quote == 0 && (c == '\'' || c == '"'):
				quote = c
			case quote == 0 && !yield(i):
				return
			}
		}
	}
}

// maxHead bounds what stands before a verbatim argument, in bytes: names are far shorter.
const maxHead = 4096

// cutWords returns the first n words of a line and what follows the blank behind them. ok is false if nothing does, or if one of them is an
// option.
func cutWords(line string, n int) (words []string, rest string, ok bool) {
	for i := 1; i < min(len(line), maxHead); i++ {
		if line[i] != ' ' && line[i] != '\t' || line[i-1] == ' ' {
			continue
		}
		words, err := shellwords.Split(line[:i])
		switch {
		case err != nil: // in the middle of a quoted word
		case len(words) > n || len(words) > 0 && strings.HasPrefix(words[len(words)-1], "-"):
			return nil, "", false
		case len(words) == n:
			return words, line[i+1:], true
		}
	}
	return nil, "", false
}
