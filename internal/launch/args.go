package launch

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of a program's arguments. A mount namespace is made by a process that has them all in one argument, as JSON, which may write six bytes
// for one; the kernel takes 128 KiB of that.
const (
	maxArgs     = 1024
	maxArgBytes = 16 << 10 // of all
)

// CheckArgs finds why arguments can't be given to a program as they are.
func CheckArgs(args []string) error {
	if n := len(args); n > maxArgs {
		return fmt.Errorf("%d arguments, at most %d are taken: have the program read a file", n, maxArgs)
	}
	size := 0
	for _, a := range args {
		size += len(a)
		if strings.ContainsRune(a, 0) || !utf8.ValidString(a) {
			return fmt.Errorf("the argument %.200q holds a NUL character or is not UTF-8: leave that out", a)
		}
	}
	if size > maxArgBytes {
		return fmt.Errorf("the arguments have %d bytes, at most %d are taken: have the program read a file", size, maxArgBytes)
	}
	return nil
}
