package swci

import (
	"fmt"
	"io"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/swci/deeds"
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
	Joins      string           `json:"joins" doc:"the assignment beside which hosts carry it out; empty: none"`
	Host       string           `json:"host" doc:"that was approved or refused"`
	By         string           `json:"by" doc:"SPIFFE ID of the operator; empty: the SNs judged"`
	Reason     string           `json:"reason" doc:"in words"`
	Members    []ranMembersJSON `json:"members" doc:"of an assignment that has ended: the hosts that it was on"`
}

type ranMembersJSON struct {
	Node   string `json:"node" doc:"the host"`
	PeerID string `json:"peer_id" doc:"libp2p peer ID of its node key"`
	Group  string `json:"group" doc:"that it was in; empty: not recorded"`
	Peers  uint32 `json:"peers" doc:"for how many it counted; 0: not recorded"`
	State  string `json:"state" doc:"exited, refused, lost or stopped, or how far it had come"`
	Code   int32  `json:"code" doc:"exit code"`
	Signed bool   `json:"signed" doc:"the record has the host's signature of it"`
}

func taskStepsToJSON(all []deeds.Deed) []taskStepJSON {
	out := []taskStepJSON{}
	for _, d := range all {
		out = append(out, taskStepJSON{d.Record, stamp(d.AtMS), d.Does, d.Task, d.Digest, d.Assignment, d.Joins, approvedHost(d), d.By, d.Reason, membersToJSON(d.Members)})
	}
	return out
}

func membersToJSON(all []ledger.Member) []ranMembersJSON {
	out := []ranMembersJSON{}
	for _, m := range all {
		out = append(out, ranMembersJSON{m.Node, m.PeerID, m.Group, m.Peers, m.State, m.Code, m.Signature != ""})
	}
	return out
}

// printTaskSteps says who made, assigned, approved, refused and ended tasks, and which hosts ran them.
func printTaskSteps(w io.Writer, all []deeds.Deed) {
	for _, d := range all {
		what := "task " + d.Task
		if d.Assignment != "" {
			what = "assignment " + d.Assignment + " of task " + d.Task
		}
		what += " " + d.Does
		if d.Joins != "" {
			what += " beside " + d.Joins
		}
		if host := approvedHost(d); host != "" {
			what += " on " + host
		}
		if d.By != "" {
			what += " by " + d.By
		}
		if d.Reason != "" {
			what += ": " + d.Reason
		}
		if ran := deeds.Ran(d.Members); ran != "" {
			what += "; " + ran
		}
		fmt.Fprintf(w, "%s (record %d, %s)\n", text.Line(what), d.Record, dated(d.AtMS))
	}
}

// approvedHost is the host that was approved or refused.
func approvedHost(d deeds.Deed) string {
	if (d.Does == "approved" || d.Does == "refused") && len(d.Hosts) == 1 {
		return d.Hosts[0]
	}
	return ""
}
