package shell

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/swarmd/swarmd/internal/text"
)

// maxListed bounds how many words are shown that could stand where the cursor is.
const maxListed = 100

// complete finishes the word before the cursor of a line: with what all candidates have in common, or with the only one and a blank. What
// is left to choose from it returns as choices, when there is nothing to add.
func complete(line string, pos int, candidates []string) (newLine string, newPos int, choices []string) {
	head, tail := line[:pos], line[pos:]
	word := lastWord(head)
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(c string) bool {
		return c == "" || c != text.Line(c) || len(c) < len(word) || !strings.EqualFold(c[:len(word)], word)
	})
	slices.Sort(candidates)
	candidates = slices.Compact(candidates)
	switch len(candidates) {
	case 0:
		return line, pos, nil
	case 1:
		with := asWord(candidates[0])
		if !strings.HasSuffix(with, "/") && !strings.HasPrefix(tail, " ") {
			with += " "
		}
		head = head[:len(head)-len(word)] + with
		return head + tail, len(head), nil
	}
	if with := common(candidates); len(with) > len(word) {
		head = head[:len(head)-len(word)] + asWord(with)
		return head + tail, len(head), nil
	}
	return line, pos, candidates
}

// lastWord is what stands behind the last blank.
func lastWord(head string) string { return head[strings.LastIndexByte(head, ' ')+1:] }

// asWord has a backslash before what would end the word or mean something else.
func asWord(word string) string {
	var b strings.Builder
	for _, r := range word {
		if strings.ContainsRune(` \'"`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// common is what all words begin with.
func common(words []string) string {
	first := words[0]
	for _, w := range words[1:] {
		for !strings.HasPrefix(w, first) {
			_, size := utf8.DecodeLastRuneInString(first)
			first = first[:len(first)-size]
		}
	}
	return first
}

// columns shows words in columns on a terminal that is so wide.
func columns(w io.Writer, words []string, width int) {
	more := len(words) - maxListed
	words = words[:min(len(words), maxListed)]
	column := 2
	for _, c := range words {
		column = max(column, utf8.RuneCountInString(c)+2)
	}
	var b strings.Builder
	perRow := max(width/column, 1)
	for i, c := range words {
		b.WriteString(c)
		if last := i == len(words)-1; last || i%perRow == perRow-1 {
			b.WriteByte('\n')
		} else {
			b.WriteString(strings.Repeat(" ", column-utf8.RuneCountInString(c)))
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	fmt.Fprint(w, b.String())
}
