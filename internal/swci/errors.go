package swci

import (
	"fmt"
	"io"
	"strings"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/plain"
)

// printError writes err as users see it: one line, below it the last words of a process if err has some, then the remedy.
func printError(w io.Writer, err error) {
	for i, line := range strings.Split(err.Error(), "\n") {
		if i == 0 {
			line = "swarmctl: " + line
		}
		fmt.Fprintln(w, oneLine(line))
	}
	if hint := exit.Hint(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", oneLine(hint))
	}
}

// oneLine keeps a message that came from elsewhere from breaking the form, or a terminal.
func oneLine(s string) string { return plain.Line(s) }
