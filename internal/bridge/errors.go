package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/swarmd/swarmd/internal/bridge/wire"
)

// ReasonedError is an error that a program can decide on. A Handler's errors that are (or wrap) one reach the program
// with their reason and remedy; all others become INTERNAL.
type ReasonedError interface {
	error
	Reason() string // UPPER_SNAKE
	Remedy() string // one line, may be empty
}

// Error is the package's own ReasonedError.
type Error struct {
	Code    string // the reason, UPPER_SNAKE
	Message string // one line
	Hint    string // the remedy, one line
}

var _ ReasonedError = (*Error)(nil)

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Reason returns what programs decide on.
func (e *Error) Reason() string { return e.Code }

// Remedy returns what the user can do.
func (e *Error) Remedy() string { return e.Hint }

// Reasons that this package gives.
const (
	ReasonBadRequest    = "BAD_REQUEST"
	ReasonTooLarge      = "TOO_LARGE"
	ReasonNotFound      = "NOT_FOUND"
	ReasonMethod        = "METHOD_NOT_ALLOWED"
	ReasonSessionOpen   = "SESSION_OPEN"
	ReasonNoSession     = "NO_SESSION"
	ReasonNoSpace       = "NO_SPACE"
	ReasonSlotLost      = "SLOT_LOST"
	ReasonModelTooLarge = "MODEL_TOO_LARGE"
	ReasonDaemonStopped = "DAEMON_STOPPED"
	ReasonInternal      = "INTERNAL"
)

// PendingError is what a Handler's Sync and Close return when there is no answer yet: the program asks again. Returning
// the context's own deadline error means the same, with the status's "waiting" as the text.
type PendingError struct {
	Waiting string // in words, for people
}

// Error says what is waited for.
func (e *PendingError) Error() string { return "pending: " + e.Waiting }

func badRequest(format string, args ...any) error {
	return &Error{ReasonBadRequest, fmt.Sprintf(format, args...), "see docs/reference/bridge.md for the request's fields"}
}

// statusOf maps a reason to the HTTP status; reasons of handlers that are not listed conflict with the session's state.
func statusOf(reason string) int {
	switch reason {
	case ReasonBadRequest:
		return http.StatusBadRequest
	case ReasonNotFound, ReasonNoSession:
		return http.StatusNotFound
	case ReasonMethod:
		return http.StatusMethodNotAllowed
	case ReasonTooLarge, ReasonModelTooLarge:
		return http.StatusRequestEntityTooLarge
	case ReasonNoSpace:
		return http.StatusInsufficientStorage
	case ReasonDaemonStopped:
		return http.StatusServiceUnavailable
	case ReasonInternal:
		return http.StatusInternalServerError
	}
	return http.StatusConflict
}

// errorBody translates an error for the program.
func errorBody(err error) (int, wire.ErrorResponse) {
	body := wire.ErrorBody{Reason: ReasonInternal, Message: err.Error(), Remedy: "see the node's log"}
	var reasoned ReasonedError
	switch {
	case errors.As(err, &reasoned):
		body.Reason, body.Remedy = reasoned.Reason(), reasoned.Remedy()
	case errors.Is(err, context.Canceled):
		body = wire.ErrorBody{Reason: ReasonDaemonStopped, Message: "the node stopped before it had an answer", Remedy: "start the node again"}
	}
	return statusOf(body.Reason), wire.ErrorResponse{Error: body}
}
