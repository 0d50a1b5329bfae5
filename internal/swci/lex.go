package swci

import (
	"strings"

	"github.com/swarmd/swarmd/internal/shellwords"
)

// lex takes a line of a script apart. The last argument of a command that takes it verbatim is what stands there, as in the original, with
// all its blanks and quotes: a line of a YAML file. It may be one quoted word too, as in a shell.
func (g *Grammar) lex(line string) ([]string, error) {
	line = strings.TrimSpace(line)
	c := g.named(strings.Fields(line))
	if c == nil || !c.Verbatim {
		return shellwords.Split(line)
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
