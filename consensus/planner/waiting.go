package planner

import (
	"fmt"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/text"
)

// Kind is what a contract waits for.
type Kind string

// Kinds of waiting.
const (
	WaitSessions  Kind = "sessions"  // nobody is enrolled
	WaitPeers     Kind = "peers"     // fewer than minPeers are enrolled and alive
	WaitExpected  Kind = "expected"  // minPeers are ready, the first round waits for the expected ones
	WaitTraining  Kind = "training"  // peers are still training, or fetch the committed model
	WaitMerging   Kind = "merging"   // an attempt is running
	WaitRetry     Kind = "retry"     // an attempt failed, the next one follows after a pause
	WaitWeight    Kind = "weight"    // all who are ready have weight 0
	WaitRequired  Kind = "required"  // a node that the rules require is not ready
	WaitShare     Kind = "share"     // those who are ready hold less of the weight than the rules demand
	WaitCap       Kind = "cap"       // too few are ready for the rules' cap on each one's weight
	WaitMethod    Kind = "method"    // fewer than the method needs are ready with a weight above 0
	WaitOwners    Kind = "owners"    // who may own the leaves is not there
	WaitWitnesses Kind = "witnesses" // fewer parties than the rules demand would merge each part
	WaitRefusal   Kind = "refusal"   // too few of those who are ready accept one another
	WaitApart     Kind = "apart"     // too few of those who are ready reach one another
	WaitModel     Kind = "model"     // nobody alive holds the committed model
	WaitProof     Kind = "proof"     // nodes hold newer models than the SNs know of
	WaitPaused    Kind = "paused"    // an operator has paused the contract
	WaitCommand   Kind = "command"   // a decision was taken and is being committed
	WaitCompleted Kind = "completed" // the contract is over
)

// Waiting is the reason why no round is planned or committed right now.
type Waiting struct {
	Kind    Kind
	Phase   state.Phase
	Round   uint64    // the round that is due
	Attempt uint64    // the running or failed attempt
	Have    []string  // nodes that are there or ready
	For     []string  // nodes that are waited for
	Lost    []string  // nodes that are enrolled and dead
	Sitting []string  // nodes that sit out for what they were blamed for
	Need    int       // minPeers, or the expected number of peers
	Since   time.Time // when this reason began
	Until   time.Time // when the wait ends whoever comes; zero: it does not end
	Ends    bool      // at Until the contract ends with the last model
	Fails   bool      // at Until all sessions of the contract fail
	Detail  string    // what failed
	Asking  bool      // digests differ, and those waited for have not said yet what they got of each owner
	Rule    string    // of kinds that come from a rule: what it demands, and what is there

	Snapshot Snapshot // what Explain shows beside the reason
}

// String is one line for people. Times are UTC.
func (w Waiting) String() string {
	var b strings.Builder
	switch w.Kind {
	case WaitSessions:
		b.WriteString("no session is open")
	case WaitPeers:
		fmt.Fprintf(&b, "waiting for %s: have %s; need %d (minPeers)", text.MorePeers(w.Need-len(w.Have), ""), text.Names(w.Have), w.Need)
	case WaitExpected:
		fmt.Fprintf(&b, "waiting for %s: have %s; expect %d", text.MorePeers(w.Need-len(w.Have), "expected "), text.Names(w.Have), w.Need)
	case WaitTraining:
		fmt.Fprintf(&b, "waiting for %s (still training) since %s", text.Names(w.For), clock(w.Since))
	case WaitMerging:
		fmt.Fprintf(&b, "merging round %d (attempt %d): waiting for %s", w.Round, w.Attempt, text.Names(w.For))
	case WaitRetry:
		fmt.Fprintf(&b, "round %d (attempt %d) failed: %s; next attempt at %s", w.Round, w.Attempt, w.Detail, clock(w.Until))
	case WaitWeight:
		fmt.Fprintf(&b, "all peers that are ready have weight 0: %s", text.Names(w.Have))
	case WaitRequired, WaitShare, WaitCap, WaitMethod, WaitModel, WaitProof, WaitOwners, WaitWitnesses, WaitRefusal, WaitApart, WaitPaused:
		b.WriteString(w.Rule)
	case WaitCommand:
		fmt.Fprintf(&b, "committing: %s", w.Detail)
	case WaitCompleted:
		fmt.Fprintf(&b, "completed: round %d is the final model", w.Round)
	}
	switch {
	case w.Until.IsZero() || w.Kind == WaitRetry:
	case w.Fails:
		fmt.Fprintf(&b, "; all sessions fail at %s", clock(w.Until))
	case w.Ends:
		fmt.Fprintf(&b, "; ends with the model of round %d at %s", w.Round-1, clock(w.Until))
	default:
		fmt.Fprintf(&b, "; starts without %s at %s", w.Them(), clock(w.Until))
	}
	if len(w.Lost) > 0 {
		fmt.Fprintf(&b, "; lost: %s", text.Names(w.Lost))
	}
	if len(w.Sitting) > 0 {
		fmt.Fprintf(&b, "; sitting out: %s", text.Names(w.Sitting))
	}
	if w.Detail != "" && w.Kind != WaitRetry && w.Kind != WaitCommand {
		fmt.Fprintf(&b, "; %s", w.Detail)
	}
	return b.String()
}

// Them is the pronoun of those who are waited for.
func (w Waiting) Them() string {
	if len(w.For) == 1 || len(w.For) == 0 && w.Need-len(w.Have) == 1 {
		return "it"
	}
	return "them"
}

// key tells two reasons apart, so that Since stands still while a reason lasts.
func (w Waiting) key() string {
	return fmt.Sprintf("%s %d %d %v %s", w.Kind, w.Round, w.Attempt, w.For, w.Rule)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }
