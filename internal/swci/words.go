package swci

import (
	"fmt"
	"io"
	"strings"

	"github.com/swarmd/swarmd/internal/text"
)

// worded is what -o json prints of a command that the original has too. It has a second form: the original's words, line by line, as
// scripts and the Python client read them.
type worded interface{ words(l *lines) }

// show prints what a command answers: as JSON if that is asked for, at the prompt in the original's words if it has some, else by table.
func (s *Session) show(answer any, table func() error) error {
	if s.JSON {
		return printJSON(s.Env.Stdout, answer)
	}
	if w, ok := answer.(worded); ok && s.inWords() {
		w.words(&lines{s.Env.Stdout})
		return nil
	}
	return table()
}

// inWords reports whether a command is to answer in the words of the original: at the prompt, in scripts and web mode, unless the line
// asks for another form. Answers go through show; this is for what is said before there is one.
func (s *Session) inWords() bool { return s.prompt != nil && !s.formed }

// lines are an answer in the original's words.
type lines struct{ w io.Writer }

// say writes one line. Blanks before it stay.
func (l *lines) say(line string) { fmt.Fprintln(l.w, text.Line(line)) }

// fact writes what is known of a thing under the original's name for it: UPDATE_TS.
func (l *lines) fact(name, value string) { l.say(fmt.Sprintf("%-25s : %s", name, value)) }

// row writes cells divided by commas. The original's Python class cuts at each comma, so that one in a cell becomes a blank.
func (l *lines) row(cells []string) {
	var row []string
	for _, c := range cells {
		row = append(row, strings.ReplaceAll(c, ",", " "))
	}
	l.say(strings.Join(row, ","))
}

// facts writes them in their order.
func (l *lines) facts(f fields) {
	for _, x := range f {
		l.fact(x.name, x.value)
	}
}

// field is one fact of what a command shows. Its name is that of the original, where that has one.
type field struct{ name, value string }

// fields are the facts of one thing, in the order in which they are shown. A name may stand several times.
type fields []field

// add takes a fact that is known.
func (f *fields) add(name, value string) {
	if value != "" {
		*f = append(*f, field{name, value})
	}
}

// table prints a row for each fact, with its name in lower case.
func (f fields) table(w io.Writer) error {
	var t table
	for _, x := range f {
		t.add(strings.ToLower(strings.ReplaceAll(x.name, "_", " ")), x.value)
	}
	return t.print(w)
}
