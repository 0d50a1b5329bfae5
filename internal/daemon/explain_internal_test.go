package daemon

import (
	"errors"
	"testing"
)

// A program's last words, and what an image says of itself, stand in errors.
func TestTerminalsObeyNoError(t *testing.T) {
	err := errors.New("program t.py: exit code 1; last lines:\n  \x1b[31mred\x1b]52;c;bWluZQ==\x07\n  two\u009b2J")
	if got, want := explain(err, "swarmd"), "swarmd: program t.py: exit code 1; last lines:\n  red\n  two"; got != want {
		t.Errorf("got %q", got)
	}
}
