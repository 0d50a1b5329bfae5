package rpc

import (
	"context"
	"errors"
	"slices"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/probe/board"
	"github.com/swarmd/swarmd/internal/rpc/quota"
)

// Refusals that are decided here. Everything else comes from consensus and its state.
var (
	// ErrNoCertificate: the connection proves no identity of a swarm.
	ErrNoCertificate = errors.New("no X.509-SVID of a swarm role")
	// ErrCertificateExpired: the caller's SVID expired while its connection lived on.
	ErrCertificateExpired = errors.New("the caller's SVID has expired")
	// ErrRoleDenied: the caller's role may not call the method.
	ErrRoleDenied = errors.New("permission denied")
	// ErrWrongSwarm: the caller belongs to another swarm.
	ErrWrongSwarm = errors.New("wrong swarm")
	// ErrSwarmIDMissing: the call needs the Swarm-Id header.
	ErrSwarmIDMissing = errors.New("the call carries no swarm ID")
	// ErrNoSwarm: this SN is in no swarm yet.
	ErrNoSwarm = errors.New("this SN has not joined a swarm yet")
	// ErrTokenRefused: the call may not speak for the node that it names.
	ErrTokenRefused = errors.New("token refused")
	// ErrNonceRefused: the registration's nonce is unknown here, used, or too old.
	ErrNonceRefused = errors.New("nonce refused")
	// ErrSignature: a signature does not fit what it should prove.
	ErrSignature = errors.New("signature refused")
	// ErrOrderMissing: a request that changes the swarm carries no operator's order.
	ErrOrderMissing = errors.New("the request is not signed")
	// ErrOrderRefused: an operator's order does not prove who asks, or for what.
	ErrOrderRefused = errors.New("order refused")
	// ErrPeerID: the node key and the peer ID do not belong together.
	ErrPeerID = errors.New("peer ID does not belong to the node key")
	// ErrRoleMismatch: a node registers in a role that its SVID does not have.
	ErrRoleMismatch = errors.New("role differs from the SVID's")
	// ErrNameMismatch: a node registers under a name that is not its SVID's.
	ErrNameMismatch = errors.New("name differs from the SVID's")
	// ErrNotYours: the session belongs to another node.
	ErrNotYours = errors.New("session belongs to another node")
	// ErrBadRequest: a field is missing or out of its bounds.
	ErrBadRequest = errors.New("bad request")
	// ErrElsewhere: the SN that would be banned is the one that is asked to.
	ErrElsewhere = errors.New("an sn can't ban itself: ask another one")
	// ErrStopping: this SN is shutting down.
	ErrStopping = errors.New("this SN is stopping")
)

const (
	noLeaderRemedy = "wait for an election; if it lasts start the missing SNs: a majority must run"
	noQuorumRemedy = "start the missing SNs: a majority must run; if most are gone for good see docs/operations/lost.md"
)

// ReasonInternal is the reason of every error that has none of its own.
const ReasonInternal = "INTERNAL"

// row maps one error to the wire.
type row struct {
	match  error
	reason string
	code   connect.Code
	remedy string // "": the error brings its own, or there is none
}

// rows are walked in order with errors.Is; the first that matches decides. Rejections of the replicated state need none.
func rows() []row {
	return []row{
		{ErrNoCertificate, "NO_CERTIFICATE", connect.CodeUnauthenticated, "connect with an X.509-SVID whose path is /swarm/<role> or /swarm/<role>/<name>"},
		{ErrCertificateExpired, "SVID_EXPIRED", connect.CodeUnauthenticated, "connect again with the rotated SVID; if it is not rotated check the SPIRE agent"},
		{ErrRoleDenied, "ROLE_DENIED", connect.CodePermissionDenied, "use an SVID of a role that may do this, such as /swarm/swci for swarmctl"},
		{board.ErrBusy, "PROBE_BUSY", connect.CodeFailedPrecondition, "wait a moment: a probe begins once a minute at most"},
		{board.ErrTooLarge, "PROBE_TOO_LARGE", connect.CodeFailedPrecondition, "check single nodes with swarmctl identity check ADDRESS"},
		{ErrWrongSwarm, "WRONG_SWARM", connect.CodePermissionDenied, "check the SN's address; to join another swarm forget the pinned swarm ID (state directory or context)"},
		{ErrSwarmIDMissing, "SWARM_ID_MISSING", connect.CodeInvalidArgument, "call GetSwarm first and send its swarm ID in the header Swarm-Id"},
		{ErrNoSwarm, "NO_SWARM", connect.CodeUnavailable, "wait until this SN has joined, or use another SN"},
		{ErrTokenRefused, "TOKEN_REFUSED", connect.CodeUnauthenticated, "register the node again; if another process uses its state directory stop that one"},
		{ErrNonceRefused, "NONCE_REFUSED", connect.CodeUnauthenticated, "ask for a new challenge, to register from the same SN, and use it within a minute"},
		{ErrSignature, "SIGNATURE_REFUSED", connect.CodePermissionDenied, "sign with the registered node key, or the SVID's key, over this connection; a proxy that ends TLS breaks this"},
		{ErrOrderMissing, "ORDER_MISSING", connect.CodeUnauthenticated, "use a swarmctl of the SNs' version: it signs what it asks for"},
		{ErrOrderRefused, "ORDER_REFUSED", connect.CodePermissionDenied, "sign the very request with the key of an SVID of the role swci that the leader's trust bundle accepts now"},
		{ErrPeerID, "PEER_ID_MISMATCH", connect.CodeInvalidArgument, "send the peer ID that is derived from the node key"},
		{ErrRoleMismatch, "ROLE_MISMATCH", connect.CodePermissionDenied, "give the node an SVID of its role (/swarm/sl, /swarm/swop)"},
		{ErrNameMismatch, "NAME_MISMATCH", connect.CodePermissionDenied, "start the node with the --name that its SVID carries, or give it an SVID of its own"},
		{ErrNotYours, "SESSION_NOT_YOURS", connect.CodePermissionDenied, "open a session of your own"},
		{ErrBadRequest, "BAD_REQUEST", connect.CodeInvalidArgument, "correct the request"},
		{quota.ErrTooFast, "TOO_FAST", connect.CodeResourceExhausted, "ask again later; swarmd does by itself"},
		{consensus.ErrLedgerBehind, "LEDGER_INCOMPLETE", connect.CodeUnavailable, "ask another SN, or again later"},
		{quota.ErrBusy, "BUSY", connect.CodeUnavailable, "try again, or use another SN; if it lasts give each node an SVID of its own: bounds are per SPIFFE ID"},
		{ErrStopping, "STOPPING", connect.CodeUnavailable, "use another SN"},
		{quorum.ErrLost, "NO_QUORUM", connect.CodeUnavailable, noQuorumRemedy},
		{consensus.ErrNoLeader, "NO_LEADER", connect.CodeUnavailable, noLeaderRemedy},
		{consensus.ErrNotLeader, "NO_LEADER", connect.CodeUnavailable, noLeaderRemedy},
		{ErrElsewhere, "STOPPING", connect.CodeUnavailable, "use another SN"},
		{consensus.ErrShutdown, "STOPPING", connect.CodeUnavailable, "use another SN"},
		{context.DeadlineExceeded, "TIMEOUT", connect.CodeDeadlineExceeded, "try again"},
		{context.Canceled, "CANCELED", connect.CodeCanceled, ""},
	}
}

// codes are those of the rejections of the replicated state; reason and remedy come with the error.
func codes() map[state.Category]connect.Code {
	return map[state.Category]connect.Code{
		state.Malformed: connect.CodeInvalidArgument,
		state.NotFound:  connect.CodeNotFound,
		state.Exists:    connect.CodeAlreadyExists,
		state.Denied:    connect.CodePermissionDenied,
		state.Conflict:  connect.CodeFailedPrecondition,
		state.Full:      connect.CodeResourceExhausted,
		state.OutOfDate: connect.CodeAborted,
	}
}

// Reasons returns every reason that the API gives, sorted.
func Reasons() []string {
	out := []string{ReasonInternal}
	for _, r := range rows() {
		out = append(out, r.reason)
	}
	for _, reasons := range state.Reasons() {
		out = append(out, reasons...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// match finds how an error travels.
func match(err error) (row, bool) {
	for _, r := range rows() {
		if errors.Is(err, r.match) {
			return r, true
		}
	}
	if rejected, ok := errors.AsType[*state.Error](err); ok {
		if code, known := codes()[rejected.Category()]; known {
			return row{reason: rejected.Reason, code: code}, true
		}
	}
	return row{reason: ReasonInternal, code: connect.CodeInternal, remedy: "see the log of the SN; please report this"}, false
}

// ReasonOf returns the reason with which an error travels.
func ReasonOf(err error) string {
	r, _ := match(err)
	return r.reason
}

// toConnect makes the error that travels. What has no reason is not told to the peer: it stands in the log.
func toConnect(err error) error {
	if ce, ok := errors.AsType[*connect.Error](err); ok {
		return ce
	}
	r, known := match(err)
	text := err
	if !known {
		text = errors.New("internal error")
	}
	if se, ok := errors.AsType[*state.Error](err); ok && known && se.Remedy != "" {
		r.remedy = se.Remedy
	}
	if counted, ok := errors.AsType[*quorum.Error](err); ok && known {
		text, r.remedy = counted, counted.Remedy()
	}
	out := connect.NewError(r.code, text)
	detail, derr := connect.NewErrorDetail(&swarmv1.ErrorReason{Reason: r.reason, Remedy: r.remedy})
	if derr == nil { // it always is: the message is ours
		out.AddDetail(detail)
	}
	return out
}
