package cmdline

import (
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// SPIREFlag is an option of a SPIRE agent, which has the agent's own name for it. It is like another, or if it takes no value a switch
// like that.
func SPIREFlag(like cli.StringFlag, takesValue bool) cli.Flag {
	if takesValue {
		return &like
	}
	f := &cli.BoolFlag{Name: like.Name, Usage: like.Usage, Hidden: like.Hidden, EnvVars: like.EnvVars, Category: like.Category}
	if f.Name == "gen-join-token" {
		f.Aliases = []string{"genJoinToken"} // the original's other spelling
	}
	return f
}

// Wrap breaks the lines of paragraphs at blanks before they are wider than width; all but the first begin with an indent.
func Wrap(text string, width, indent int) string {
	var out []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		var b strings.Builder
		at := indent
		for i, word := range strings.Fields(paragraph) {
			w := utf8.RuneCountInString(word)
			switch {
			case i == 0:
			case at+1+w > width:
				b.WriteString("\n" + strings.Repeat(" ", indent))
				at = indent
			default:
				b.WriteString(" ")
				at++
			}
			b.WriteString(word)
			at += w
		}
		out = append(out, b.String())
	}
	return strings.Join(out, "\n\n"+strings.Repeat(" ", indent))
}

// ShortTime leaves out of a time, such as 1h0m0s, the zeros at its end.
func ShortTime(text string) string {
	if minutes, ok := strings.CutSuffix(text, "m0s"); ok {
		text = minutes + "m"
	}
	if hours, ok := strings.CutSuffix(text, "h0m"); ok {
		text = hours + "h"
	}
	return text
}
