package swci

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// printError writes err as users see it: one line, below it the last words of a process if err has some, then the remedy.
func printError(env Env, err error) {
	w, prog := env.Stderr, program(env)
	for i, line := range strings.Split(err.Error(), "\n") {
		if i == 0 {
			line = prog + ": " + line
		}
		fmt.Fprintln(w, text.Line(line))
	}
	if hint := exit.Hint(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", text.Line(hint))
	}
}

// program is what the user called: scripts/run-swci and its siblings say so.
func program(env Env) string {
	if p := env.Getenv("SWARM_PROG"); p != "" {
		return filepath.Base(p)
	}
	return "swarmctl"
}
