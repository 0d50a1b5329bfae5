package task

import (
	"encoding/json"
	"fmt"
	"maps"
	"unicode/utf8"

	"github.com/swarmd/swarmd/identity/naming"
)

// Bounds of what a board holds; lengths are in bytes.
const (
	MaxDefinition  = 1 << 20  // of one task
	MaxDefinitions = 64 << 20 // of all tasks together
	MaxTasks       = 4096
	MaxTaskrunners = 1024
	MaxLive        = 64  // assignments that are not over
	MaxOver        = 256 // assignments that are over and kept
	MaxMembers     = 1024
	MaxText        = 256 // of reasons and descriptions, encoded

	maxField     = 160     // of a task's author and outcome, as in the original's schema
	maxLines     = 1 << 16 // of a definition
	maxSPIFFEID  = 2048
	maxGroups    = 16
	maxRetries   = 100
	maxTimeoutMS = 30 * 24 * 3600 * 1000
	maxGraceMS   = 10 * 60 * 1000
)

// Board is all tasks, taskrunners and assignments of a swarm. A nil one is empty.
type Board struct {
	Tasks       map[string]*Task       `json:"tasks"`       // by name, without the root task
	Taskrunners map[string]*Taskrunner `json:"taskrunners"` // by name; the default one once it was used
	Assignments map[string]*Assignment `json:"assignments"` // by ID
	Over        uint64                 `json:"over"`        // how many assignments are over, those that are not kept among them
}

// Whole returns the board, or an empty one for nil.
func (b *Board) Whole() *Board {
	if b == nil {
		return (&Board{}).Bare()
	}
	return b
}

// Bare returns a board with nothing in its maps, and the rest of this one.
func (b *Board) Bare() *Board {
	return &Board{Tasks: map[string]*Task{}, Taskrunners: map[string]*Taskrunner{}, Assignments: map[string]*Assignment{}, Over: b.Over}
}

// draft returns a board whose maps may be changed; what they point to is replaced.
func (b *Board) draft() *Board {
	b = b.Whole()
	return &Board{Tasks: maps.Clone(b.Tasks), Taskrunners: maps.Clone(b.Taskrunners), Assignments: maps.Clone(b.Assignments), Over: b.Over}
}

// Cause is what sort of refusal it is.
type Cause int

// The causes of refusals.
const (
	Bad        Cause = iota + 1 // a field is out of its bounds
	Unknown                     // what is named is not there
	Taken                       // the name belongs to another
	Finalised                   // the task can't be changed any more
	Unfinished                  // the task is not finalised yet
	InUse                       // others need it
	Busy                        // the taskrunner has a live assignment
	Stale                       // the assignment has gone on
	Full                        // there is no room for more
)

// Refusal is why a step is not legal.
type Refusal struct {
	Cause   Cause
	Message string // one line
	Remedy  string // one line; empty: there is none
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

func illegal(cause Cause, remedy, format string, args ...any) *Refusal {
	return &Refusal{Cause: cause, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// text reports whether s is one line of valid text that takes at most limit bytes as it is encoded: "<" takes six.
func text(s string, limit int) bool {
	if len(s) > limit || !utf8.ValidString(s) {
		return false
	}
	if raw, err := json.Marshal(s); err != nil || len(raw)-len(`""`) > limit {
		return false
	}
	for _, r := range s {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return false
		}
	}
	return true
}

// clipped is a name of any length in a message.
func clipped(s string) string {
	if len(s) > naming.MaxContract {
		s = s[:naming.MaxContract]
	}
	return fmt.Sprintf("%q", s)
}

// visible reports whether s has visible ASCII characters only, at most limit of them.
func visible(s string, limit int) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= limit
}

// validDigest reports whether s is a SHA-256 in lower case hex.
func validDigest(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 64
}
