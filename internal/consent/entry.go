package consent

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
)

// Decision is what a host has decided on an assignment.
type Decision string

// The decisions.
const (
	Allowed  Decision = "allowed"
	Asked    Decision = "asked" // not yet: somebody is to approve it
	Refused  Decision = "refused"
	Approved Decision = "approved" // after it was asked
	Later    Decision = "later"    // nobody could say it yet
)

// Entry is what a host has had to do with an assignment. Times are Unix milliseconds by the host's clock; 0: it did not happen.
type Entry struct {
	Assignment string `json:"assignment"`
	Order      string `json:"order"` // hex SHA-256 of all that was signed
	By         string `json:"by"`    // SPIFFE ID of who asked, as proven when it was received
	Task       string `json:"task"`
	Digest     string `json:"digest"` // of the task
	Taskrunner string `json:"taskrunner,omitempty"`
	ReceivedMS int64  `json:"received_ms"`
	ExpiresMS  int64  `json:"expires_ms"`

	Decision  Decision `json:"decision"`
	Sentence  string   `json:"sentence,omitempty"` // of the owner's policy, or the approver's reason
	Approver  string   `json:"approver,omitempty"` // SPIFFE ID of who approved or refused it; empty: the policy alone
	DecidedMS int64    `json:"decided_ms"`
	// Image is the one that the decision is about; nil: the task has none. It does not change once it is known.
	Image *policy.Image `json:"image,omitempty"`

	Epoch   uint32 `json:"epoch,omitempty"` // the last one that was begun; 0: none
	BeganMS int64  `json:"began_ms,omitempty"`
	EndedMS int64  `json:"ended_ms,omitempty"` // of that epoch
	Words   string `json:"words,omitempty"`    // how it ended
	// Part is the index of the only member that the host is in that epoch, plus one. 0: it may be several, as of a job, or the entry is from before.
	Part uint32 `json:"part,omitempty"`
	// Done are the members of a job that have ended in that epoch, while the host had others.
	Done indices `json:"done,omitempty"`
	// Addresses are those that members have of their own in that epoch, of each the only one that this host signs.
	Addresses addresses `json:"addresses,omitempty"`
}

// check holds an entry to its bounds, and its steps to their order.
func (e *Entry) check() error {
	for _, s := range []string{e.Order, e.By, e.Task, e.Digest, e.Taskrunner, e.Sentence, e.Approver, e.Words} {
		if len(s) > maxText || !utf8.ValidString(s) {
			return errors.New("a text is out of bounds")
		}
	}
	switch {
	case !task.ValidID(e.Assignment):
		return errors.New("its assignment has no ID")
	case e.Order == "" || e.By == "" || e.Task == "" || e.Digest == "" || e.ReceivedMS <= 0 || e.ExpiresMS <= 0 || e.DecidedMS <= 0:
		return errors.New("it lacks what every entry has")
	case !slices.Contains([]Decision{Allowed, Asked, Refused, Approved, Later}, e.Decision), e.Decision == Approved && e.Approver == "":
		return fmt.Errorf("decision %.20q, without an approver", e.Decision)
	case (e.Epoch == 0) != (e.BeganMS == 0) || e.BeganMS < 0 || e.EndedMS < 0 || e.EndedMS > 0 && e.BeganMS == 0, (e.Part > 0 || e.Done != "" || e.Addresses != "") && e.BeganMS == 0:
		return errors.New("it has ended or begun out of order")
	case e.Done.check() != nil:
		return e.Done.check()
	case e.Addresses.check() != nil:
		return e.Addresses.check()
	case e.Image != nil:
		return e.Image.Check()
	}
	return nil
}

// knowsImage reports whether its image was found. One that could not be told is looked for again with the next decision, but not while
// somebody is asked.
func (e *Entry) knowsImage() bool {
	return e.Image != nil && (e.Image.Unknown == "" || e.Decision == Asked)
}

// imageText is its image in words; empty: it has none. Of one that nobody asks for any more it says first what is let through with it.
func (e *Entry) imageText() string {
	switch {
	case e.Image == nil:
		return ""
	case e.Image.Unknown != "":
		return fmt.Sprintf("the digest of image %s is unknown: whatever the name stands for then is fetched: %s", e.Image.Name, e.Image.Unknown)
	}
	if len(e.Image.Others) > 0 {
		return "images " + e.Image.String()
	}
	return "image " + e.Image.String()
}

// imagesListed are its images in words for the host's own log, each with its digest.
func (e *Entry) imagesListed() string {
	if e.Image == nil || len(e.Image.Others) == 0 {
		return e.imageText()
	}
	words := e.imageText()
	for _, one := range e.Image.Each() {
		words += "; " + one.String()
	}
	return words
}

// decided notes a decision, if it is another one.
func (e *Entry) decided(d Decision, approver, sentence string, now time.Time) {
	if e.Decision != d || e.Approver != approver || e.Sentence != sentence {
		e.Decision, e.Approver, e.Sentence, e.DecidedMS = d, approver, sentence, now.UnixMilli()
	}
}

// begin notes that an epoch begins, of which the host is one part or, if that is 0, may be several.
func (e *Entry) begin(epoch, part uint32, now time.Time) {
	e.Epoch, e.BeganMS, e.EndedMS, e.Words, e.Part, e.Done, e.Addresses = epoch, now.UnixMilli(), 0, "", part, "", ""
}

// running reports whether its epoch was begun and has not ended.
func (e *Entry) running() bool { return e.BeganMS > 0 && e.EndedMS == 0 }
