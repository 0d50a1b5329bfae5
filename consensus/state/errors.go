package state

import (
	"errors"
	"fmt"
	"slices"
)

// Reasons of rejected commands. They are stable: clients match on them.
const (
	ReasonBadCommand        = "BAD_COMMAND"        // a field is out of its bounds
	ReasonOtherSwarm        = "OTHER_SWARM"        // the swarm has another ID already
	ReasonNameTaken         = "NAME_TAKEN"         // the node name belongs to another node key or SPIFFE ID
	ReasonKeyTaken          = "KEY_TAKEN"          // the node key is registered under another name
	ReasonRoleChanged       = "ROLE_CHANGED"       // the same key registers in another role
	ReasonNodeUnknown       = "NODE_UNKNOWN"       // no such node is registered
	ReasonNodeLive          = "NODE_LIVE"          // the node is alive, so it can't be forgotten
	ReasonNodeDead          = "NODE_DEAD"          // the node is not alive, so it can't take part
	ReasonNodeLeft          = "NODE_LEFT"          // the node left and has not registered since
	ReasonNotLearner        = "NOT_LEARNER"        // only SL nodes open sessions
	ReasonContractAbsent    = "CONTRACT_UNKNOWN"   // no such contract
	ReasonContractOver      = "CONTRACT_OVER"      // the contract has its final model
	ReasonStaleRun          = "STALE_RUN"          // the contract was reset since
	ReasonTermsMismatch     = "TERMS_MISMATCH"     // the session's terms are not the contract's
	ReasonTermsOpen         = "TERMS_OPEN"         // the terms are not fixed yet
	ReasonSessionUnknown    = "SESSION_UNKNOWN"    // no such session in this contract
	ReasonSessionTaken      = "SESSION_TAKEN"      // the session ID belongs to another node
	ReasonSessionEnded      = "SESSION_ENDED"      // the session has ended
	ReasonOpenSessions      = "OPEN_SESSIONS"      // live sessions stand in the way of a reset
	ReasonStalePlan         = "STALE_PLAN"         // round or attempt is not the one that is due
	ReasonTooFewPeers       = "TOO_FEW_PEERS"      // fewer participants than minPeers
	ReasonBadShards         = "BAD_SHARDS"         // the shards do not tile the model
	ReasonNoOwner           = "NO_OWNER"           // none of those whom the rules let own takes part
	ReasonWitnesses         = "WITNESSES"          // fewer parties own parts of the model than are to merge each
	ReasonThirdOwner        = "THIRD_OWNER"        // leaves that two owners may have would go to a third
	ReasonZeroWeight        = "ZERO_WEIGHT"        // all participants have weight 0
	ReasonRequired          = "REQUIRED_NODE"      // a node that the rules require is missing
	ReasonWeightShare       = "WEIGHT_SHARE"       // the participants hold less of the weight than the rules demand
	ReasonWeightCap         = "WEIGHT_CAP"         // a participant's weight is above the rules' cap
	ReasonNotAllowed        = "NOT_ALLOWED"        // the contract's rules do not let the node take part
	ReasonNotFinal          = "NOT_FINAL"          // the final round is not due
	ReasonNoModel           = "NO_MODEL"           // there is no committed model to end with
	ReasonBanned            = "BANNED"             // the node key is banned
	ReasonNotAdmitted       = "NOT_ADMITTED"       // no operator has admitted the SN's name and node key
	ReasonAdmissionOff      = "ADMISSION_OFF"      // SNs of this swarm join without an operator's word
	ReasonInvitationUnknown = "INVITATION_UNKNOWN" // no invitation has the key that an SN claims, or its claim is not signed by that
	ReasonInvitationUsed    = "INVITATION_USED"    // another SN has claimed the invitation, or this one has and was taken out since
	ReasonInvitationExpired = "INVITATION_EXPIRED" // the invitation has expired
	ReasonInvitationOther   = "INVITATION_OTHER"   // the invitation is for another name or SPIFFE ID
	ReasonTooManyBans       = "TOO_MANY_BANS"      // MaxBans node keys are banned already
	ReasonTooLarge          = "TOO_LARGE"          // its record would be longer than one of the ledger may be
	ReasonLastSN            = "LAST_SN"            // the only SN can't be banned
	ReasonLayoutAbsent      = "LAYOUT_UNKNOWN"     // the contract does not hold the layout that a session names; SNs bring it then
	ReasonQuota             = "QUOTA"              // the node has as much in the state as it may
	ReasonStateFull         = "STATE_FULL"         // the state holds as much as it may
	ReasonQuorum            = "QUORUM"             // too few SNs would be left to agree; told by the raft leader
	ReasonTaskUnknown       = "TASK_UNKNOWN"       // no such task, taskrunner or assignment
	ReasonTaskTaken         = "TASK_TAKEN"         // there is another task of the name
	ReasonTaskFinal         = "TASK_FINALISED"     // the task can't be changed any more
	ReasonTaskOpen          = "TASK_OPEN"          // the task, or one that it needs, is not finalised
	ReasonTaskInUse         = "TASK_IN_USE"        // others need the task or taskrunner
	ReasonTaskrunnerBusy    = "TASKRUNNER_BUSY"    // the taskrunner has a live assignment
	ReasonStaleTask         = "STALE_TASK"         // the task was changed since, or the assignment has gone on
	ReasonNoRight           = "NO_RIGHT"           // the swarm's rights do not allow it
	ReasonLastRight         = "LAST_RIGHT"         // who sets the rights could not change them any more
	ReasonTasksFull         = "TASKS_FULL"         // there are as many tasks, bytes of them, taskrunners or assignments as there may be
)

// Category is what sort of refusal a reason is. Whoever shows refusals to others, as codes of an API, goes by it and knows no reasons.
type Category int

// The categories of reasons.
const (
	Malformed Category = iota + 1 // the command can't be carried out in any state
	NotFound                      // what it names is not there
	Exists                        // what it would make belongs to another
	Denied                        // whoever asks may not, in any state of what it names
	Conflict                      // the state as it is stands against it
	Full                          // there is no room for it
	OutOfDate                     // the state has gone on since it was asked for
)

// Reasons returns all reasons by category.
func Reasons() map[Category][]string {
	return map[Category][]string{
		Malformed: {ReasonBadCommand, ReasonTooFewPeers, ReasonBadShards, ReasonZeroWeight},
		NotFound:  {ReasonContractAbsent, ReasonSessionUnknown, ReasonNodeUnknown, ReasonInvitationUnknown, ReasonTaskUnknown},
		Exists:    {ReasonNameTaken, ReasonKeyTaken, ReasonSessionTaken, ReasonTaskTaken},
		Denied: {
			ReasonOtherSwarm, ReasonRoleChanged, ReasonNotLearner, ReasonBanned, ReasonNotAllowed, ReasonNotAdmitted,
			ReasonInvitationUsed, ReasonInvitationExpired, ReasonInvitationOther, ReasonNoRight,
		},
		Conflict: {
			ReasonNodeLive, ReasonNodeDead, ReasonNodeLeft, ReasonContractOver, ReasonTermsMismatch, ReasonLayoutAbsent, ReasonTermsOpen,
			ReasonOpenSessions, ReasonSessionEnded, ReasonNotFinal, ReasonNoModel, ReasonRequired, ReasonWeightShare, ReasonWeightCap,
			ReasonNoOwner, ReasonWitnesses, ReasonAdmissionOff, ReasonTooManyBans, ReasonTooLarge, ReasonLastSN, ReasonQuorum,
			ReasonTaskFinal, ReasonTaskOpen, ReasonTaskInUse, ReasonTaskrunnerBusy, ReasonLastRight,
		},
		Full:      {ReasonStateFull, ReasonQuota, ReasonTasksFull},
		OutOfDate: {ReasonStaleRun, ReasonStalePlan, ReasonThirdOwner, ReasonStaleTask},
	}
}

// ErrVersion says that a command or snapshot is of a version or type, or has a field, that this program does not know. The node must
// stop before it applies it: going on would mean two histories.
var ErrVersion = errors.New("unknown version of command or snapshot: update this node to the version of the others")

// ErrMalformed says that bytes are no command or snapshot in canonical form.
var ErrMalformed = errors.New("malformed command or snapshot")

// Error is the rejection of a command. It is as deterministic as success.
type Error struct {
	Reason  string `json:"reason"`  // one of the Reason constants
	Message string `json:"message"` // one line
	Remedy  string `json:"remedy"`  // one line; empty when there is nothing that a user could do
}

// Error returns the message, which stands alone without the remedy.
func (e *Error) Error() string { return e.Message }

// Category returns that of the reason; 0 for one that is not of this package.
func (e *Error) Category() Category {
	for category, reasons := range Reasons() {
		if slices.Contains(reasons, e.Reason) {
			return category
		}
	}
	return 0
}

// Is makes errors.Is match on the reason alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Reason == e.Reason
}

// ReasonOf returns the reason of a rejected command, or "" when err is no rejection.
func ReasonOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

func reject(reason, remedy, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}
