package swci

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// reasonCodes maps reasons of the API to exit codes where the RPC's code says too little.
var reasonCodes = map[string]int{
	"NO_LEADER":     exit.NoLeader,
	"NOT_LEADER":    exit.NoLeader,
	"NO_QUORUM":     exit.NoLeader,
	"OPEN_SESSIONS": exit.Conflict,
}

// rpcCodes maps RPC codes to exit codes; a code that is absent means Failed.
var rpcCodes = map[connect.Code]int{
	connect.CodeUnavailable:        exit.Unreachable,
	connect.CodePermissionDenied:   exit.Denied,
	connect.CodeUnauthenticated:    exit.Denied,
	connect.CodeNotFound:           exit.NotFound,
	connect.CodeAlreadyExists:      exit.Conflict,
	connect.CodeFailedPrecondition: exit.Conflict,
	connect.CodeAborted:            exit.Conflict,
	connect.CodeDeadlineExceeded:   exit.TimedOut,
	connect.CodeCanceled:           exit.Interrupted,
}

// hints is the remedy for a reason when the daemon sends none.
var hints = map[string]string{
	"OPEN_SESSIONS": "wait until training ends, or end its sessions with: reset contract NAME force",
	"NO_LEADER":     "a majority of the SNs must be up; swarmctl list nodes shows who is",
	"NO_QUORUM":     "a majority of the SNs must be up; swarmctl list nodes shows who is",
}

// apiError gives an RPC's error its exit code and remedy.
func apiError(sn string, err error) error {
	code, ok := rpcCodes[connect.CodeOf(err)]
	if !ok {
		code = exit.Failed
	}
	var rpc *connect.Error
	if !errors.As(err, &rpc) {
		return &exit.Error{Status: code, Err: err}
	}
	out := &exit.Error{Status: code, Err: errors.New(rpc.Message())}
	for _, detail := range rpc.Details() {
		v, err := detail.Value()
		if err != nil {
			continue
		}
		if r, ok := v.(*swarmv1.ErrorReason); ok {
			out.Hint = first(r.GetRemedy(), hints[r.GetReason()])
			if c, ok := reasonCodes[r.GetReason()]; ok {
				out.Status = c
			}
		}
	}
	if out.Status == exit.Unreachable && out.Hint == "" {
		out.Err = fmt.Errorf("reach SN %s: %w", sn, out.Err)
		out.Hint = "is the SN running, and is this its API port (30304 unless changed)?"
	}
	return out
}

// printError writes err as users see it: one line, then the remedy when there is one.
func printError(w io.Writer, err error) {
	fmt.Fprintf(w, "swarmctl: %s\n", oneLine(err.Error()))
	if hint := exit.Hint(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", oneLine(hint))
	}
}

// oneLine keeps a message that came from elsewhere from breaking the form, or a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}
