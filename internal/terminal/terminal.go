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

// Columns is how wide a stream's terminal is now; otherwise, if it is none or does not say.
func Columns(stream any, otherwise int) int {
	if f, ok := stream.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return otherwise
}
