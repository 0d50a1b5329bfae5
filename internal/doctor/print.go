package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/swarmd/swarmd/internal/text"
)

// colours are what a terminal shows a status in.
var colours = map[Status]string{OK: "\x1b[32m", Warning: "\x1b[33m", Failed: "\x1b[31m", Skipped: "\x1b[2m"}

// words are what stands before a row.
var words = map[Status]string{OK: "ok", Warning: "WARN", Failed: "FAIL", Skipped: "-"}

// Word is how a status is shown, in colour if that is wanted, padded to the longest.
func (s Status) Word(colour bool) string {
	word := fmt.Sprintf("%-4s", words[s])
	if !colour {
		return word
	}
	return colours[s] + word + "\x1b[0m"
}

// Print writes the report for people: a row a line, below it the remedy if there is one.
func (r *Report) Print(w io.Writer, colour bool) error {
	var b strings.Builder
	width := 0
	for _, x := range r.Rows {
		width = max(width, utf8.RuneCountInString(x.Check))
	}
	count := map[Status]int{}
	for _, x := range r.Rows {
		count[x.Status]++
		fmt.Fprintf(&b, "%s  %-*s  %s\n", x.Status.Word(colour), width, text.Line(x.Check), x.Detail)
		if x.Remedy != "" {
			fmt.Fprintf(&b, "%s  -> %s\n", strings.Repeat(" ", 4+2+width), x.Remedy)
		}
	}
	fmt.Fprintf(&b, "\n%s: %s\n", r.Command, verdict(count))
	_, err := io.WriteString(w, b.String())
	return err
}

func verdict(count map[Status]int) string {
	said := fmt.Sprintf("%d failed, %d warnings, %d ok, %d not checked", count[Failed], count[Warning], count[OK], count[Skipped])
	if count[Failed] > 0 {
		return said + "; correct what failed before this node joins"
	}
	return said + "; nothing keeps this node from joining that could be seen from here"
}

// PrintJSON writes the report as JSON.
func (r *Report) PrintJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
