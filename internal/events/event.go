// Package events keeps on an SN, beside the ledger, what it has noticed itself, such as a new leader, nodes that fell silent and came back, and
// attempts that failed, and what other SNs have told it of such. It is bounded, it is no part of what SNs agree on, and proves nothing.
package events

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/history/crcline"
	"github.com/swarmd/swarmd/internal/text"
)

// Kind is what has happened. Who reads events may meet kinds of later versions.
type Kind string

// Kinds of events, and what each is about.
const (
	Leader         Kind = "leader"          // Node leads, in term Count; Run: how often the group of SNs was founded anew
	QuorumLost     Kind = "quorum_lost"     // too few SNs answer Node, an SN
	QuorumFound    Kind = "quorum_found"    // Node follows a leader again
	Silent         Kind = "silent"          // Node is not heard any more
	Back           Kind = "back"            // it is heard again
	Left           Kind = "left"            // Node has left
	AttemptFailed  Kind = "attempt_failed"  // Attempt of Round came to nothing
	RoundSkipped   Kind = "round_skipped"   // Round was given up with what was offered for it; Count: how often that was so in Run
	ModelLost      Kind = "model_lost"      // no node has the model of Round any more
	ModelAdopted   Kind = "model_adopted"   // training goes on from a model that the SNs did not know
	Waits          Kind = "waits"           // Contract waits for what should not last
	GoesOn         Kind = "goes_on"         // it does no longer
	SessionFailed  Kind = "session_failed"  // the session of Node ended, and not because its program had finished; Count: its place among all
	TrainingFailed Kind = "training_failed" // several sessions of Contract ended at once, for one reason
)

// Event is what an SN has noticed. What it is not about is zero.
type Event struct {
	Number   uint64 `json:"number"` // ascending with what one SN has noticed
	AtMS     int64  `json:"at_ms"`
	Kind     Kind   `json:"kind"`
	Node     string `json:"node,omitempty"`
	Contract string `json:"contract,omitempty"`
	Run      uint64 `json:"run,omitempty"`
	Round    uint64 `json:"round,omitempty"`
	Attempt  uint64 `json:"attempt,omitempty"`
	Count    uint64 `json:"count,omitempty"`
	Text     string `json:"text,omitempty"` // one line
	By       string `json:"by"`             // the SN that has noticed it
	// Gone is, on the first line of a file, how many events there were that are no longer kept; else 0.
	Gone int `json:"gone,omitempty"`
}

// Bounds of an event: who tells can't make it as large as they like.
const (
	maxText = 500
	maxKind = 32
	maxLine = 8 << 10
	// ahead is how far the clock of another SN may be ahead.
	ahead = 10 * time.Minute
)

// key tells two events apart. Of what several SNs have noticed one is kept.
func (e *Event) key() string {
	key := fmt.Sprintf("%s %s %s %d %d %d %d", e.Kind, e.Node, e.Contract, e.Run, e.Round, e.Attempt, e.Count)
	if e.Attempt == 0 && e.Count == 0 { // it may happen again
		key += fmt.Sprintf(" %d", e.AtMS)
	}
	return key
}

// clean makes an event fit to be kept and shown; not ok: it is none.
func (e *Event) clean(now time.Time) (ok bool) {
	e.Text = text.Clip(text.Line(e.Text), maxText)
	return e.Number > 0 && e.AtMS > 0 && e.AtMS <= now.Add(ahead).UnixMilli() && e.Kind.valid() && naming.ValidNode(e.By) &&
		(e.Node == "" || naming.ValidNode(e.Node)) && (e.Contract == "" || naming.ValidContract(e.Contract))
}

// valid reports whether something may be a kind.
func (k Kind) valid() bool {
	return k != "" && len(k) <= maxKind && strings.Trim(string(k), "abcdefghijklmnopqrstuvwxyz_") == ""
}

// encoded is an event as a line of a file.
func (e *Event) encoded() ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return crcline.Sealed(data), nil
}

// eventIn reads a line of a file, without its line feed; not ok: it is damaged.
func eventIn(line []byte, now time.Time) (e Event, ok bool) {
	data, ok := crcline.Read(line)
	return e, ok && json.Unmarshal(data, &e) == nil && e.clean(now)
}
