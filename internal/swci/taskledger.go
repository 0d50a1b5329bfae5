package swci

import (
	"fmt"
	"io"
	"strings"

	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/internal/text"
)

// taskStepJSON is an element of the tasks of `verify ledger -o json`.
type taskStepJSON struct {
	Record     uint64           `json:"record" doc:"its number, from 1"`
	At         *string          `json:"at" doc:"when; RFC 3339, UTC"`
	Does       string           `json:"does" doc:"made, finalised or deleted of a task; assigned, approved, refused, succeeded, failed or cancelled of an assignment"`
	Task       string           `json:"task" doc:"its name"`
	Digest     string           `json:"digest" doc:"of the task; empty: it was not finalised"`
	Assignment string           `json:"assignment" doc:"its ID; empty: it is about the task"`
	Host       string           `json:"host" doc:"that was approved or refused"`
	By         string           `json:"by" doc:"SPIFFE ID of the operator; empty: the SNs judged"`
	Reason     string           `json:"reason" doc:"in words"`
	Members    []ranMembersJSON `json:"members" doc:"of an assignment that has ended: the hosts that it was on"`
}

type ranMembersJSON struct {
	Node   string `json:"node" doc:"the host"`
	PeerID string `json:"peer_id" doc:"libp2p peer ID of its node key"`
	State  string `json:"state" doc:"exited, refused, lost or stopped, or how far it had come"`
	Code   int32  `json:"code" doc:"exit code"`
}

func taskStepsToJSON(all []audit.TaskStep) []taskStepJSON {
	out := []taskStepJSON{}
	for _, s := range all {
		x := taskStepJSON{s.Record, stamp(s.AtMS), s.Does, s.Task, s.Digest, s.Assignment, s.Host, s.By, s.Reason, []ranMembersJSON{}}
		for _, m := range s.Members {
			x.Members = append(x.Members, ranMembersJSON{m.Node, m.PeerID, m.State, m.Code})
		}
		out = append(out, x)
	}
	return out
}

// printTaskSteps says who made, assigned, approved, refused and ended tasks, and which hosts ran them.
func printTaskSteps(w io.Writer, all []audit.TaskStep) {
	for _, s := range all {
		what := "task " + s.Task
		if s.Assignment != "" {
			what = "assignment " + s.Assignment + " of task " + s.Task
		}
		what += " " + s.Does
		if s.Host != "" {
			what += " on " + s.Host
		}
		if s.By != "" {
			what += " by " + s.By
		}
		if s.Reason != "" {
			what += ": " + s.Reason
		}
		var ran []string
		for _, m := range s.Members {
			ran = append(ran, fmt.Sprintf("%s %s with code %d", m.Node, m.State, m.Code))
		}
		if len(ran) > 0 {
			what += "; " + strings.Join(ran, ", ")
		}
		fmt.Fprintf(w, "%s (record %d, %s)\n", text.Line(what), s.Record, dated(s.AtMS))
	}
}
