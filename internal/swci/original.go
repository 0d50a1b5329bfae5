package swci

import (
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// promptWord is the command that the original's script run-swci becomes.
const promptWord = "run-swci"

// original gives the options and variables of the original their meaning, and says once of each that has none why that is so.
func (s *Session) original(l *cmdline.Line, c *Command) error {
	table := cmdline.NewTable(slices.Concat(s.Grammar.global, c.Flags)...)
	says, err := l.Without(cmdline.Originals(promptWord, table))
	if err != nil {
		return &exit.Error{Status: exit.Usage, Err: err}
	}
	more, err := l.TakeVariables(promptWord, table, s.Env.Getenv)
	if err != nil {
		return &exit.Error{Status: exit.Usage, Err: err}
	}
	for _, text := range append(says, more...) {
		fmt.Fprintf(s.Env.Stderr, "%s: %s\n", program(s.Env), text)
	}
	return nil
}
