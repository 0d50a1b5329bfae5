package session

import (
	"context"
	"io"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

// Control is what the engine asks of the swarm's API. Each method retries until it has an answer, a refusal that no
// retry can change, or ctx ends.
type Control interface {
	// Open enrols the session and returns the contract as committed.
	Open(ctx context.Context, req *round.Open) (*round.View, error)
	// Close commits that the session's training ended.
	Close(ctx context.Context, req round.Close) (*round.View, error)
	// End commits that the session is gone.
	End(ctx context.Context, req round.End) error
	// Report sends one heartbeat, of no session if it names none, and returns the answer. It does not retry: the next one says the same.
	Report(ctx context.Context, r *round.Report) (round.Answer, error)
	// Watch calls fn with each newer view of the contract, until ctx ends or the contract is gone.
	Watch(ctx context.Context, contract string, fn func(*round.View)) error
}

// Explainer says in words what a contract waits for; the engine shows it to the waiting program.
type Explainer interface {
	Waiting(ctx context.Context, contract string) (string, error)
}

// Job is one attempt of a round as this node must carry it out.
type Job struct {
	Contract string
	Plan     *round.Plan
	Self     int // index of this node in Plan.Participants
	Layout   *merge.Layout
	Source   io.ReaderAt // what this node contributes
	Merging  models.Slot // where the merged model is written, and behind it the optimiser's state
	Turn     uint64      // counts how often the slots have turned: in which file Merging is
	// Base is the last committed model, and behind it the optimiser's state; nil if there is none.
	Base io.ReaderAt
	// Spool makes a scratch file for methods that can't merge as bytes come in. It is called at most once per round and set
	// of participants, the exchange closes what it returned, and an error says that it does not fit; nil: there is no room.
	Spool func(bytes int64) (Spool, error)
	// Stash is as Spool, for any method: a file of which little may ever be written, and which reserves nothing.
	Stash func(bytes int64) (Spool, error)
}

// Spool is a scratch file whose bytes do not count as private memory. Close removes it.
type Spool interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// Exchange carries out attempts and moves models between nodes.
type Exchange interface {
	// Merge runs one attempt. It returns the signed report of success, or the report of failure, or neither when ctx
	// ended first. It blocks, and leaves nothing running when it returns.
	Merge(ctx context.Context, job Job) (*round.Done, *round.Failed)
	// Planned names what a signature for one of the plan's attempts covers, besides the attempt's number.
	Planned(job Job) string
	// VerifySeals verifies what owners have signed of the newest attempt, which Merge has reported as a success: that can be reported then.
	// It returns the report of failure if it does not hold, and else nil.
	VerifySeals(job Job) *round.Failed
	// Forget drops what is kept of a contract's attempts, scratch files included, when none of them runs.
	Forget(contract string)
	// Fetch reads a committed model, and behind it the state that belongs to it, from a node that holds both into dst: so many bytes in
	// all. The caller checks the digests.
	Fetch(ctx context.Context, from *round.Session, m round.Ref, bytes int64, dst io.WriterAt) error
	// Traffic counts what merge streams have sent and received since the start in attempts that were complete, payload and framing.
	Traffic() (sent, received uint64)
}
