package swci

import (
	"errors"
	"fmt"
	"strings"
)

// maxWords bounds a command line's words, so that no input makes the matcher work long.
const maxWords = 64

// errNoMatch is returned by pattern.match when the words belong to another command.
var errNoMatch = errors.New("no match")

// part is one element of a pattern.
type part struct {
	word     string // keyword in lower case, or the argument's name in upper case
	arg      bool
	optional bool
	rest     bool // takes all words that are left
}

// pattern is the compiled form of a command's text such as "get contract status NAME" or "reset contract NAME [force]".
//
// A word in lower case is a keyword and matches in any case; one in upper case is an argument and takes one word as
// typed; brackets make either optional; "..." after an argument takes all the words that are left. An optional argument takes
// a word only if enough are left for the arguments after it that are not optional; an optional keyword always takes its own.
type pattern struct {
	text  string
	parts []part
}

func compilePattern(text string) (pattern, error) {
	p := pattern{text: text}
	for _, field := range strings.Fields(text) {
		var e part
		if strings.HasPrefix(field, "[") && strings.HasSuffix(field, "]") {
			e.optional = true
			field = field[1 : len(field)-1]
		}
		if trimmed, ok := strings.CutSuffix(field, "..."); ok {
			e.rest, field = true, trimmed
		}
		switch field {
		case "":
			return pattern{}, fmt.Errorf("compile pattern %q: empty word", text)
		case strings.ToUpper(field):
			e.arg = true
		case strings.ToLower(field):
		default:
			return pattern{}, fmt.Errorf("compile pattern %q: %q is neither keyword nor argument", text, field)
		}
		if n := len(p.parts); n > 0 && p.parts[n-1].rest {
			return pattern{}, fmt.Errorf("compile pattern %q: %q stands after what takes all words", text, field)
		}
		e.word = field
		p.parts = append(p.parts, e)
	}
	if len(p.parts) == 0 || p.parts[0].arg {
		return pattern{}, fmt.Errorf("compile pattern %q: must begin with a keyword", text)
	}
	return p, nil
}

// keywords returns the leading keywords: the command's name.
func (p pattern) keywords() []string {
	var out []string
	for _, e := range p.parts {
		if e.arg || e.optional {
			break
		}
		out = append(out, e.word)
	}
	return out
}

// match compares words with the pattern. It returns errNoMatch when the leading keywords are others, and an error that
// tells the usage when they are right but what follows is not.
func (p pattern) match(words []string) (Args, error) {
	name := p.keywords()
	if len(words) < len(name) {
		return Args{}, errNoMatch
	}
	for i, k := range name {
		if !strings.EqualFold(words[i], k) {
			return Args{}, errNoMatch
		}
	}
	args := Args{values: map[string]string{}, keywords: map[string]bool{}}
	rest := words[len(name):]
	for i, e := range p.parts[len(name):] {
		switch {
		case e.rest:
			args.Rest, rest = rest, nil
		case e.optional && (len(rest) == 0 || e.arg && len(rest) <= required(p.parts[len(name)+i+1:])):
		case len(rest) == 0:
			return Args{}, fmt.Errorf("%s is missing; usage: swarmctl %s", e.word, p.text)
		case e.arg:
			args.values[e.word], rest = rest[0], rest[1:]
		case strings.EqualFold(rest[0], e.word):
			args.keywords[e.word], rest = true, rest[1:]
		case !e.optional:
			return Args{}, fmt.Errorf("%.160q stands where %q belongs; usage: swarmctl %s", rest[0], e.word, p.text)
		}
	}
	if len(rest) > 0 {
		return Args{}, fmt.Errorf("%.160q is one word too many; usage: swarmctl %s", rest[0], p.text)
	}
	return args, nil
}

// required counts the parts that are not optional.
func required(parts []part) (n int) {
	for _, e := range parts {
		if !e.optional {
			n++
		}
	}
	return n
}
