package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/text"
)

// Reasons that this client acts on or makes itself. docs/reference/errors.md lists all.
const (
	ReasonNoLeader         = "NO_LEADER"
	ReasonNoQuorum         = "NO_QUORUM"
	ReasonQuorum           = "QUORUM" // without what the caller would take out the SNs would be no majority
	ReasonTimeout          = "TIMEOUT"
	ReasonStopping         = "STOPPING"
	ReasonNoSwarm          = "NO_SWARM"
	ReasonSVIDExpired      = "SVID_EXPIRED"
	ReasonNonceRefused     = "NONCE_REFUSED"
	ReasonLedgerIncomplete = "LEDGER_INCOMPLETE"
	ReasonTooFast          = "TOO_FAST"
	ReasonTokenRefused     = "TOKEN_REFUSED"
	ReasonNodeLeft         = "NODE_LEFT"
	ReasonWrongSwarm       = "WRONG_SWARM"
	ReasonContractUnknown  = "CONTRACT_UNKNOWN"
	// ReasonUnreachable is made here: no SN of the list could be reached before the context ended.
	ReasonUnreachable = "UNREACHABLE"
	// ReasonSwarmsDiffer is made here: the SNs that were named are of different swarms, and no swarm has most of them.
	ReasonSwarmsDiffer = "SWARMS_DIFFER"
)

// Error is what every method returns when the API refused or could not be reached. Its text is one line for users.
type Error struct {
	// Reason is one of docs/reference/errors.md, empty when the server gave none.
	Reason string
	// Remedy is one line: what to do about it. It may be empty.
	Remedy string
	// Message says what is wrong, in one line without the remedy. What an SN said of it is fit to be shown.
	Message string
	// Code is the Connect code.
	Code connect.Code

	err   error
	swarm string // of the SN that was asked, where that is what is wrong
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause: the context's error when it ended the waiting.
func (e *Error) Unwrap() error { return e.err }

// Reason returns the reason of an error of this package, or "".
func Reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// Remedy returns what to do about an error of this package, or "".
func Remedy(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Remedy
	}
	return ""
}

// failure is one failed attempt, sorted by what to do next.
type failure struct {
	*Error
	// sent: the request may have reached the server.
	sent bool
	// elsewhere: another SN, or the same one later, may do better.
	elsewhere bool
}

// sortOut turns what an attempt returned into a failure. sn is the SN that was asked.
func sortOut(sn string, err error) *failure {
	if own, ok := errors.AsType[*Error](err); ok {
		return &failure{Error: own, sent: true, elsewhere: worthMoving(own.Reason)}
	}
	if dial, ok := errors.AsType[*dialError](err); ok {
		return &failure{elsewhere: true, Error: unreachable(sn, dial.err)}
	}
	ce, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return &failure{sent: true, elsewhere: true, Error: unreachable(sn, err)}
	}
	for _, d := range ce.Details() {
		v, err := d.Value()
		if err != nil {
			continue
		}
		if r, ok := v.(*swarmv1.ErrorReason); ok {
			return &failure{sent: true, elsewhere: worthMoving(r.GetReason()), Error: &Error{
				Reason: r.GetReason(), Remedy: text.Line(r.GetRemedy()), Message: text.Line(ce.Message()), Code: ce.Code(), err: ce, swarm: ce.Meta().Get(headerSwarmID),
			}}
		}
	}
	// No reason: the answer came from no SN, or there was none, or it ended in the middle of a message, which the library
	// calls an invalid argument.
	if ce.Code() == connect.CodeInvalidArgument && !connect.IsWireError(ce) {
		return &failure{sent: true, elsewhere: true, Error: unreachable(sn, ce.Unwrap())}
	}
	switch ce.Code() {
	case connect.CodeUnavailable, connect.CodeUnknown, connect.CodeDeadlineExceeded, connect.CodeCanceled,
		connect.CodeInternal:
		return &failure{sent: true, elsewhere: true, Error: unreachable(sn, ce.Unwrap())}
	default:
		return &failure{sent: true, Error: &Error{Message: fmt.Sprintf("SN %s: %s", sn, text.Line(ce.Message())), Code: ce.Code(), err: ce}}
	}
}

// worthMoving: what these reasons say of one SN need not hold for the next.
func worthMoving(reason string) bool {
	switch reason {
	case ReasonNoLeader, ReasonNoQuorum, ReasonTimeout, ReasonStopping, ReasonNoSwarm, ReasonSVIDExpired, ReasonNonceRefused, ReasonLedgerIncomplete, ReasonWrongSwarm:
		return true
	default:
		return false
	}
}

func unreachable(sn string, err error) *Error {
	return &Error{
		Reason: ReasonUnreachable, Code: connect.CodeUnavailable, err: err,
		Message: fmt.Sprintf("cannot reach SN %s: %s", sn, text.Line(networkCause(err))),
		Remedy:  "check that the SN runs, its address and port, and that both sides' SVIDs are valid and of accepted trust domains",
	}
}

// networkCause is the root of a network error in words; the addresses that Go wraps around it are named already.
func networkCause(err error) string {
	if err == nil {
		return "no answer"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.Err
	}
	if n, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && n.Timeout() {
		return "timed out"
	}
	said := err.Error()
	// In TLS 1.3 the server judges our certificate after our side of the handshake is done: the refusal comes with the
	// first read, or is lost when our write fails before.
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return "it does not accept our SVID (" + alert.Err.Error() + ")"
	}
	if strings.Contains(said, "http2: client conn could not be established") {
		return "it closed the connection after the handshake: it is stopping or does not accept our SVID"
	}
	return said
}

// waited is the error of a call whose context ended while it tried: the last failure, with the context's error inside.
func waited(ctx context.Context, last *failure) error {
	if last == nil {
		return ctx.Err()
	}
	e := *last.Error
	e.err = errors.Join(context.Cause(ctx), last.Error)
	return &e
}

// dialError marks a failure before anything was sent, so that any call may be repeated.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }
