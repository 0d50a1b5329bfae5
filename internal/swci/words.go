package swci

import (
	"fmt"
	"io"
	"strings"

	"github.com/swarmd/swarmd/internal/text"
)

// inWords reports whether a command is to answer line by line in the words of the original, whose scripts are read so: at the
// prompt, unless the line asks for another form.
func (s *Session) inWords() bool { return s.prompt != nil && !s.formed }

// field is one fact of what a command shows. Its name is that of the original, where that has one: UPDATE_TS.
type field struct{ name, value string }

// fields are the facts of one thing, in the order in which they are shown. A name may stand several times.
type fields []field

// add takes a fact that is known.
func (f *fields) add(name, value string) {
	if value != "" {
		*f = append(*f, field{name, value})
	}
}

// show writes NAME : value lines in words, else rows of the names in lower case.
func (f fields) show(w io.Writer, inWords bool) error {
	var t table
	for _, x := range f {
		if inWords {
			fmt.Fprintf(w, "%-25s : %s\n", text.Line(x.name), text.Line(x.value))
			continue
		}
		t.add(strings.ToLower(strings.ReplaceAll(x.name, "_", " ")), x.value)
	}
	return t.print(w)
}
