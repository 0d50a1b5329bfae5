// Package exit holds swarmctl's exit codes and the error that carries one.
//
// The codes are a contract with scripts: they grow and never change their meaning.
package exit

import (
	"context"
	"errors"
	"fmt"
)

// The exit codes of swarmctl.
const (
	OK          = 0   // done
	Failed      = 1   // failed for a reason that has no code of its own
	Usage       = 2   // the command line is wrong
	Unreachable = 3   // no daemon answers
	Denied      = 4   // the daemon refuses this identity
	NotFound    = 5   // what was named does not exist
	Conflict    = 6   // what exists stands against it
	NoLeader    = 7   // no raft leader, or no quorum
	TimedOut    = 8   // took longer than allowed
	Warned      = 9   // done, but what came of it is probably not what was wanted
	Interrupted = 130 // Ctrl-C or TERM
)

// ErrInterrupted is the cause of a context that ended because the user asked for it.
var ErrInterrupted = &Error{Status: Interrupted, Err: errors.New("interrupted")}

// Error is an error with the exit code that it deserves and, when there is one, a remedy. The zero Status means Failed.
type Error struct {
	Status int
	Err    error
	Hint   string // one line: what to do about it; empty when nothing sensible can be said
}

// Error returns the message without the hint.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error underneath.
func (e *Error) Unwrap() error { return e.Err }

// errSaid is underneath an error that the user has been told.
var errSaid = errors.New("ended with an error")

// Said is the error for an exit code whose reason the user has been told already.
func Said(status int) error { return &Error{Status: status, Err: errSaid} }

// IsSaid reports whether err's reason has been told.
func IsSaid(err error) bool { return errors.Is(err, errSaid) }

// New makes an Error with a hint (may be empty) and a formatted message.
func New(status int, hint, format string, args ...any) *Error {
	return &Error{Status: status, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// Code returns the exit code of err: that of the outermost Error in its chain, else what the standard errors say.
func Code(err error) int {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		if e.Status == 0 {
			return Failed
		}
		return e.Status
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Failed
}

// IsLost reports whether err says of a whole swarm that it can't be asked, or gives no answer that counts.
func IsLost(err error) bool {
	switch Code(err) {
	case Unreachable, NoLeader, TimedOut:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// Hint returns the remedy of the outermost Error in err's chain that has one, or "".
func Hint(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}
