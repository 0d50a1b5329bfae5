package task

import "slices"

// JobTerms are what a job is asked to be, beside what every assignment is. Those of other tasks have none.
type JobTerms struct {
	// Done says which groups must have succeeded for the job to be done, of those that must at all: DoneAll, DoneMain or DoneAny.
	Done string `json:"done,omitempty"`
	// ReadyMS is how long after an epoch began all members must be ready; 0: nobody waits for that.
	ReadyMS int64 `json:"ready_ms,omitempty"`
	// LivesMS is how long after all members were ready the job has succeeded, also if programs have ended by then. 0: it is done as Done says.
	LivesMS int64 `json:"lives_ms,omitempty"`
	// Together has all members be on one host.
	Together bool `json:"together,omitempty"`
}

// What JobTerms.Done says.
const (
	DoneAll  = ""     // all of them
	DoneMain = "main" // the first
	DoneAny  = "any"  // one of them
)

// checkTerms holds the terms of a job to their bounds.
func checkTerms(j JobTerms, bad func(format string, args ...any) error) error {
	if !slices.Contains([]string{DoneAll, DoneMain, DoneAny}, j.Done) {
		return bad("it is done when %s: want main, any, or nothing for all", clipped(j.Done))
	}
	for _, ms := range []int64{j.ReadyMS, j.LivesMS} {
		if ms < 0 || ms > maxTimeoutMS {
			return bad("%d ms until it is ready or has lived are out of bounds: at most 30 days", ms)
		}
	}
	return nil
}

// fitsTask holds a request to what its task is: jobs alone have terms of their own, and no job joins another one, whose members know nothing of it.
func fitsTask(q *Request, t *Task) error {
	switch {
	case t.Type != RunJob && q.JobTerms != JobTerms{}:
		return illegal(Bad, "", "assignment %s has terms of a job, and task %s is a %s", q.ID, t.Name, t.Type)
	case t.Type == RunJob && q.Joins != "":
		return illegal(Bad, "assign it by itself", "assignment %s joins another, and task %s is a job", q.ID, t.Name)
	}
	return nil
}
