// Package deeds says of the ledger's records who did what, to what, and when.
package deeds

import (
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// Deed is what one record says that somebody did. Of rounds, programs and authorities there are none: verify ledger has them.
type Deed struct {
	Record     uint64 // its number, from 1
	AtMS       int64
	By         string // SPIFFE ID of the operator or the node; empty: the SNs, or nobody had to sign it then
	Does       string // "assigned"
	Task       string
	Digest     string // of the task; empty: it was not finalised
	Assignment string // its ID; empty: it is about the task
	Joins      string // the assignment beside which it is carried out
	Beside     string // the SL that runs rank 0 of the job itself
	Taskrunner string
	Hosts      []string // that an assignment names, or the one that is approved or refused
	Contract   string
	Run        uint64
	Round      uint64
	Node       string
	PeerID     string
	Sentences  []string // of rights
	Reason     string
	End        string          // of a job that has ended: why, in one word
	Members    []ledger.Member // of an assignment that has ended
}

// FromRecord returns what a record says that somebody did; false: nothing.
func FromRecord(record uint64, atMS int64, body ledger.Body) (d Deed, ok bool) {
	for _, of := range []func(ledger.Body) (Deed, bool){ofTask, ofAssignment, ofContract, ofModel, ofNode} {
		if d, ok = of(body); ok {
			d.Record, d.AtMS = record, atMS
			return d, true
		}
	}
	return d, false
}

func ofTask(body ledger.Body) (Deed, bool) {
	switch b := body.(type) {
	case ledger.Task:
		return Deed{Does: "made", Task: b.Task, By: b.By}, true
	case ledger.FinalTask:
		return Deed{Does: "finalised", Task: b.Task, Digest: b.Digest, By: signer(b.Order)}, true
	case ledger.DeletedTask:
		return Deed{Does: "deleted", Task: b.Task, Digest: b.Digest, By: signer(b.Order)}, true
	}
	return Deed{}, false
}

func ofAssignment(body ledger.Body) (d Deed, ok bool) {
	switch b := body.(type) {
	case ledger.Assigned:
		return Deed{Does: "assigned", Task: b.Task, Digest: b.Digest, Assignment: b.Assignment, Joins: b.Joins, Beside: b.Beside, Taskrunner: b.Taskrunner, Hosts: b.Hosts, By: b.By}, true
	case ledger.Approval:
		d = Deed{Does: "approved", Task: b.Task, Digest: b.Digest, Assignment: b.Assignment, Hosts: []string{b.Host}, By: b.By, Reason: b.Reason}
		if b.Refused {
			d.Does = "refused"
		}
		return d, true
	case ledger.EndedAssignment:
		return Deed{Does: b.Verdict, Task: b.Task, Digest: b.Digest, Assignment: b.Assignment, By: signer(b.Order), Reason: b.Reason, End: b.End, Members: b.Members}, true
	}
	return d, false
}

func ofContract(body ledger.Body) (Deed, bool) {
	switch b := body.(type) {
	case ledger.Rules:
		return Deed{Does: "set rules", Contract: b.Contract, Run: b.Run, By: signer(b.Order)}, true
	case ledger.Pause:
		return halted("paused", ledger.Halt(b)), true
	case ledger.Resume:
		return halted("resumed", ledger.Halt(b)), true
	case ledger.End:
		return halted("ended", ledger.Halt(b)), true
	case ledger.Reset:
		return Deed{Does: "reset", Contract: b.Contract, Run: b.Run, By: signer(b.Order)}, true
	case ledger.Deleted:
		d := Deed{Does: "deleted", Contract: b.Contract, Run: b.Run, By: signer(b.Order)}
		if b.Expired {
			d.Does = "expired"
		}
		return d, true
	}
	return Deed{}, false
}

func halted(does string, h ledger.Halt) Deed {
	return Deed{Does: does, Contract: h.Contract, Run: h.Run, By: signer(h.Order)}
}

func ofModel(body ledger.Body) (Deed, bool) {
	switch b := body.(type) {
	case ledger.Over:
		return Deed{Does: "over", Contract: b.Contract, Run: b.Run, Round: b.Round}, true
	case ledger.LostModel:
		return Deed{Does: "lost", Contract: b.Contract, Run: b.Run, Round: b.Round}, true
	case ledger.AdoptedRound:
		return Deed{Does: "adopted", Contract: b.Proof.Contract, Run: b.Proof.Run, Round: b.Round}, true
	case ledger.Fetch:
		return Deed{Does: "fetched", Contract: b.Contract, Run: b.Run, Round: b.Round, Node: b.Node, PeerID: b.PeerID, By: b.By}, true
	}
	return Deed{}, false
}

func ofNode(body ledger.Body) (Deed, bool) {
	switch b := body.(type) {
	case ledger.Registration:
		return Deed{Does: "registered", Node: b.Node, PeerID: b.PeerID, By: b.SPIFFEID}, true
	case ledger.Forget:
		return Deed{Does: "forgot", Node: b.Node, PeerID: b.PeerID, By: signer(b.Order)}, true
	case ledger.Ban:
		return Deed{Does: "banned", Node: b.Node, PeerID: b.PeerID, Reason: b.Reason, By: b.By}, true
	case ledger.Unban:
		return Deed{Does: "unbanned", PeerID: b.PeerID, By: signer(b.Order)}, true
	case ledger.Admission:
		return Deed{Does: "admitted", Node: b.Node, PeerID: b.PeerID, By: b.By}, true
	case ledger.Invitation:
		return Deed{Does: "invited", Node: b.Node, By: b.By}, true
	case ledger.Recovery:
		return Deed{Does: "founded the SNs anew", Node: b.Node, PeerID: b.PeerID, By: b.By}, true
	case ledger.Rights:
		return Deed{Does: "set rights", Sentences: b.Sentences, By: b.By}, true
	}
	return Deed{}, false
}

func signer(o *ledger.Order) string {
	if o == nil {
		return ""
	}
	return o.By
}

// What is what somebody did something to, in words.
func (d *Deed) What() string {
	var words []string
	add := func(format, value string) {
		if value != "" {
			words = append(words, fmt.Sprintf(format, value))
		}
	}
	switch {
	case d.Assignment != "":
		add("assignment %s", d.Assignment)
		add("of task %s", d.Task)
	case d.Task != "":
		add("task %s", d.Task)
	case d.Contract != "" && d.Round > 0:
		words = append(words, fmt.Sprintf("round %d of contract %s, run %d", d.Round, d.Contract, d.Run))
	case d.Contract != "":
		words = append(words, fmt.Sprintf("contract %s, run %d", d.Contract, d.Run))
	case len(d.Sentences) > 0:
		words = append(words, fmt.Sprintf("sentences: %d", len(d.Sentences)))
	}
	add("beside %s", d.Joins)
	add("beside SL %s", d.Beside)
	add("to taskrunner %s", d.Taskrunner)
	add("on %s", strings.Join(d.Hosts, ", "))
	switch {
	case d.Contract != "":
		add("from %s", d.Node)
	case d.Node != "":
		add("node %s", d.Node)
	default:
		add("node key %s", d.PeerID)
	}
	return strings.Join(words, " ")
}

// Why is the reason, and of an assignment that has ended what became of its members, in words.
func (d *Deed) Why() string {
	why, members := d.Reason, Ran(d.Members)
	if d.End != "" {
		why = strings.TrimSuffix(d.End+": "+d.Reason, ": ")
	}
	if why == "" || members == "" {
		return why + members
	}
	return why + "; " + members
}

// Ran says what became of members, in words.
func Ran(members []ledger.Member) string {
	var ran []string
	for _, m := range members {
		ran = append(ran, m.Node+" "+Ended(m.State, m.Code))
	}
	return strings.Join(ran, ", ")
}

// Ended is a member's state in words.
func Ended(state string, code int32) string {
	switch {
	case state == "exited" && code < 0: // nothing of it has run to an end: it has no exit code
		return "failed"
	case state == "exited" && code > 0:
		return fmt.Sprintf("exited with code %d", code)
	}
	return state
}
