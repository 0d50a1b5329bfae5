package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/swarmd/swarmd/internal/text"
)

// tone is how a word looks. What it means stands in the word too.
type tone int

const (
	plain tone = iota
	strong
	soft
	good
	busy
	warn
	bad
)

// attributes of a tone for a terminal, without a colour and with one.
var attributes = [...][2]string{plain: {"", ""}, strong: {"1", "1"}, soft: {"2", "2"}, good: {"", "32"}, busy: {"", "36"}, warn: {"1", "33"}, bad: {"1", "1;31"}}

// word is a part of a row.
type word struct {
	text string
	tone tone
}

// row is a line of the screen.
type row []word

// only is a row of one word.
func only(t tone, text string) row { return row{{text, t}} }

// render makes a row safe for the terminal and cuts it to a width.
func (r row) render(width int, color bool) string {
	var out strings.Builder
	for _, w := range r {
		s := text.Line(w.text)
		n := ansi.StringWidth(s)
		if n > width {
			s = ansi.Truncate(s, width, "…")
		}
		width -= n
		style := attributes[w.tone][0]
		if color {
			style = attributes[w.tone][1]
		}
		if style != "" && s != "" {
			s = "\x1b[" + style + "m" + s + "\x1b[m"
		}
		out.WriteString(s)
		if width <= 0 {
			break
		}
	}
	return out.String()
}

func (r row) width() (n int) {
	for _, w := range r {
		n += ansi.StringWidth(text.Line(w.text))
	}
	return n
}

// folded is a text behind a label on at most so many rows.
func folded(label, what string, t tone, width, most int) (rows []row) {
	label, what = text.Line(label), text.Line(what)
	indent := ansi.StringWidth(label)
	if indent > width/2 {
		label, what, indent = "", label+what, 0
	}
	head, left := label, strings.Fields(what)
	for len(left) > 0 {
		line := left[0]
		for left = left[1:]; len(left) > 0 && ansi.StringWidth(line)+1+ansi.StringWidth(left[0]) <= width-indent; left = left[1:] {
			line += " " + left[0]
		}
		if len(rows) == most-1 && len(left) > 0 {
			line = ansi.Truncate(line, width-indent-1, "") + "…"
			left = nil
		}
		rows = append(rows, row{{head, soft}, {line, t}})
		head = strings.Repeat(" ", indent)
	}
	return rows
}

// fitting is the words for which there is room in a width, the first of them always, with blanks between them.
func fitting(width int, words ...row) (out row) {
	for _, w := range words {
		if len(w) == 0 {
			continue
		}
		gap := row{{"  ", plain}}
		if out == nil {
			gap = nil
		}
		if out != nil && out.width()+gap.width()+w.width() > width {
			continue
		}
		out = append(append(out, gap...), w...)
	}
	return out
}
