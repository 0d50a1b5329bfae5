package audit

import "github.com/swarmd/swarmd/consensus/ledger"

// TaskStep is a record of a task or of an assignment: who made, fixed, deleted, assigned, approved, refused or ended it.
type TaskStep struct {
	Record     uint64
	AtMS       int64
	Does       string // made, finalised, deleted, assigned, approved, refused, succeeded, failed or cancelled
	Task       string
	Digest     string // empty: it was not finalised
	Assignment string // its ID; empty: the step is the task's
	Host       string // of an approval or a refusal
	By         string // SPIFFE ID of the operator; empty: the SNs judged
	Reason     string
	Members    []ledger.Member // of an assignment that has ended
}

// stepOf tells of a record of tasks; false: it is none.
func stepOf(body ledger.Body) (s TaskStep, ok bool) {
	switch b := body.(type) {
	case ledger.Task:
		s = TaskStep{Does: "made", Task: b.Task, By: b.By}
	case ledger.FinalTask:
		s = TaskStep{Does: "finalised", Task: b.Task, Digest: b.Digest, By: signer(b.Order)}
	case ledger.DeletedTask:
		s = TaskStep{Does: "deleted", Task: b.Task, Digest: b.Digest, By: signer(b.Order)}
	case ledger.Assigned:
		s = TaskStep{Does: "assigned", Task: b.Task, Digest: b.Digest, Assignment: b.Assignment, By: b.By}
	case ledger.Approval:
		s = TaskStep{Does: "approved", Task: b.Task, Digest: b.Digest, Assignment: b.Assignment, Host: b.Host, By: b.By, Reason: b.Reason}
		if b.Refused {
			s.Does = "refused"
		}
	case ledger.EndedAssignment:
		s = TaskStep{Does: b.Verdict, Task: b.Task, Digest: b.Digest, Assignment: b.Assignment, By: signer(b.Order), Reason: b.Reason, Members: b.Members}
	default:
		return s, false
	}
	return s, true
}

func signer(o *ledger.Order) string {
	if o == nil {
		return ""
	}
	return o.By
}
