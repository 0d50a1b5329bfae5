package consensus

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/state"
)

// Sentinels that a caller decides on with errors.Is.
var (
	// ErrNoLeader is returned when the context ended while no leader could be reached: an election is under way, or there is
	// no quorum, which a *quorum.Error in its place says.
	ErrNoLeader = quorum.ErrNoLeader
	// ErrNotLeader is returned by what only the leader can do.
	ErrNotLeader = errors.New("not the leader")
	// ErrShutdown is returned once the group is stopping.
	ErrShutdown = errors.New("consensus is shut down")
	// ErrElsewhere is returned to who asks an SN to ban itself.
	ErrElsewhere = errors.New("an sn can't ban itself: ask another one")
	// ErrRefused is wrapped by the error of a join that will not succeed by trying again.
	ErrRefused = errors.New("join refused")
)

// RemoteError is the failure of a handler on another SN, or one that a handler wants the caller to see as it is: it
// travels whole. Rejections by the state travel as *state.Error instead.
type RemoteError struct {
	// Reason is a stable word in UPPER_SNAKE, or empty.
	Reason string
	// Message is one line.
	Message string
}

// Error returns the message.
func (e *RemoteError) Error() string { return e.Message }

// wireError is an error between two SNs.
type wireError struct {
	Code    string       `json:"code"`
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	State   *state.Error `json:"state,omitempty"`
}

const (
	codeState     = "state"
	codeNoLeader  = "no_leader"
	codeNotLeader = "not_leader"
	codeShutdown  = "shutdown"
	codeRefused   = "refused"
	codeDeadline  = "deadline"
	codeOther     = "other"
)

// wireSentinels lists what keeps its identity on the wire.
var wireSentinels = []struct {
	code string
	err  error
}{
	{codeNotLeader, ErrNotLeader},
	{codeNoLeader, ErrNoLeader},
	{codeShutdown, ErrShutdown},
	{codeRefused, ErrRefused},
	{codeDeadline, context.DeadlineExceeded},
}

func toWire(err error) wireError {
	if rejected, ok := errors.AsType[*state.Error](err); ok {
		return wireError{Code: codeState, State: rejected}
	}
	w := wireError{Code: codeOther, Message: err.Error()}
	if remote, ok := errors.AsType[*RemoteError](err); ok {
		w.Reason, w.Message = remote.Reason, remote.Message
	}
	for _, s := range wireSentinels {
		if errors.Is(err, s.err) {
			w.Code = s.code
			break
		}
	}
	return w
}

func fromWire(w wireError) error {
	if w.Code == codeState && w.State != nil {
		return w.State
	}
	remote := &RemoteError{Reason: w.Reason, Message: w.Message}
	for _, s := range wireSentinels {
		if w.Code != s.code {
			continue
		}
		if w.Reason == "" && w.Message == s.err.Error() {
			return s.err
		}
		return &wiredSentinel{sentinel: s.err, remote: remote}
	}
	return remote
}

// wiredSentinel is a sentinel that arrived with another SN's words, which already name it.
type wiredSentinel struct {
	sentinel error
	remote   *RemoteError
}

// Error returns the other SN's words.
func (e *wiredSentinel) Error() string { return e.remote.Message }

// Unwrap lets errors.Is and errors.As find both.
func (e *wiredSentinel) Unwrap() []error { return []error{e.sentinel, e.remote} }

// fromRaft translates raft's errors into this package's.
func fromRaft(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrRaftShutdown), errors.Is(err, raft.ErrTransportShutdown):
		return ErrShutdown
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost),
		errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrAbortedByRestore):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return err
}
