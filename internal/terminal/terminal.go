// Package terminal knows who sits at a stream.
package terminal

import (
	"os"

	"golang.org/x/term"
)

// Is reports whether a stream, a reader or writer, is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
