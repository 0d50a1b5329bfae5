package container

import (
	"errors"
	"fmt"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// problem is an error with a remedy.
func problem(help, format string, args ...any) error {
	return &engine.Error{Err: fmt.Errorf(format, args...), Help: help}
}

// problems are several errors, one a line, each with its remedy behind it.
type problems []error

func (p problems) Error() string {
	text := ""
	for i, err := range p {
		if i > 0 {
			text += "\n"
		}
		text += err.Error()
		var with *engine.Error
		if errors.As(err, &with) && with.Help != "" {
			text += ": " + with.Help
		}
	}
	return text
}

// OutOfReach reports whether all of them are of an engine that can't be reached: another error does not pass.
func (p problems) OutOfReach() bool {
	for _, err := range p {
		if !engine.OutOfReach(err) {
			return false
		}
	}
	return true
}

// together makes one error of those that are not nil. Of a single one the remedy stays apart (engine.Error.Remedy); several
// carry theirs in the text.
func together(errs ...error) error {
	var all problems
	for _, err := range errs {
		var more problems
		switch {
		case err == nil:
		case errors.As(err, &more):
			all = append(all, more...)
		default:
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}
