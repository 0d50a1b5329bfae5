package sentence

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is what a token is. Punctuation is its own kind.
type kind rune

const (
	word    kind = 'w'
	quoted  kind = 'q'
	differs kind = '!'
	end     kind = 0
)

// token is a part of a sentence.
type token struct {
	kind kind
	text string // what a quoted one stands for, without quotes
}

// named is a token in the words of an error.
func (t token) named() string {
	if t.kind == end {
		return "the end"
	}
	return fmt.Sprintf("%.80q", t.text)
}

// lex divides a sentence into tokens, the last of which is its end.
func lex(s string) (tokens []token, err error) {
	switch {
	case len(s) > MaxBytes:
		return nil, fmt.Errorf("it has %d bytes, at most %d", len(s), MaxBytes)
	case !utf8.ValidString(s):
		return nil, fmt.Errorf("it is no UTF-8")
	}
	for {
		s = strings.TrimLeft(s, " \t\r\n")
		if s == "" {
			return append(tokens, token{}), nil
		}
		t, n, err := next(s)
		if err != nil {
			return nil, err
		}
		tokens, s = append(tokens, t), s[n:]
	}
}

// next returns the token at the start of a text that begins with no space, and how many bytes it takes.
func next(s string) (token, int, error) {
	switch c := s[0]; {
	case strings.ContainsRune("{}(),=", rune(c)):
		return token{kind(c), s[:1]}, 1, nil
	case strings.HasPrefix(s, "!="):
		return token{differs, "!="}, 2, nil
	case c == '\'':
		return nextQuoted(s)
	}
	n := strings.IndexFunc(s, func(r rune) bool { return !inWord(r) })
	if n < 0 {
		n = len(s)
	}
	if n == 0 {
		r, _ := utf8.DecodeRuneInString(s)
		if strings.ContainsRune("\"`‘’“”´", r) {
			return token{}, 0, fmt.Errorf("%q begins no value: values stand in '…'", r)
		}
		return token{}, 0, fmt.Errorf("%q has no place in a sentence outside '…'", r)
	}
	return token{word, s[:n]}, n, nil
}

// inWord reports whether a rune may be in a word: those of SPIFFE ID patterns, digests and references of images.
func inWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._/:*@+~", r)
}

func nextQuoted(s string) (token, int, error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != '\'':
			b.WriteByte(s[i])
			continue
		case i+1 < len(s) && s[i+1] == '\'':
			b.WriteByte('\'')
			i++
			continue
		}
		value := b.String()
		switch {
		case value == "":
			return token{}, 0, fmt.Errorf("'' is no value")
		case len(value) > MaxValue:
			return token{}, 0, fmt.Errorf("the value %.40q… has %d bytes, at most %d", value, len(value), MaxValue)
		case strings.ContainsFunc(value, unicode.IsControl):
			return token{}, 0, fmt.Errorf("the value %.80q has a control character", value)
		}
		return token{quoted, value}, i + 1, nil
	}
	return token{}, 0, fmt.Errorf("%.40q has no closing '", s)
}
