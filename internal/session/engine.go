package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/internal/trust"
)

// Config is what an Engine works with. All fields are required unless they say otherwise.
type Config struct {
	Peer      string // this node's name
	Control   Control
	Explainer Explainer
	Exchange  Exchange
	// NewSlots makes the weight files of a session with a model of so many bytes; the engine closes them.
	NewSlots func(bytes int64) (models.Slots, error)
	// OpenSlots opens those of an earlier run of the daemon, named as the program was told; only Resume needs it.
	OpenSlots func(bytes int64, local, committed string) (models.Slots, error)
	Log       *slog.Logger
	// Journal keeps what a later run of the daemon needs to take a session up; nil: nothing is kept.
	Journal *Journal
	// Swarm names the swarm and the epoch that the node follows now; nil: it is always the same.
	Swarm func() string
	// Settled is a contract whose newest run has given its final model to another program of this node: who asks for it once more
	// wants a new training. Empty: none.
	Settled string
	// Isolation says what keeps programs in, for the other peers to see.
	Isolation string
	// Program says which program opens a session, for the ledger; nil: nothing is said.
	Program func() string
	// ModelDir keeps committed models on disk; empty: none are kept.
	ModelDir string
	// ScratchDir takes files that methods need beside the weight files and no program sees; empty: the system's directory for
	// temporary files.
	ScratchDir string
	// SpoolDir is tried before it for files without a name, which may lie where a program looks; empty: none is.
	SpoolDir string
	// ExpectedPeers is how many sessions the contract should wait for in its first round; 0: unknown.
	ExpectedPeers uint32
	// CheckinDefault is the check-in mode of programs that choose none, unless the contract's rules have one; empty: none.
	CheckinDefault string
	// Trust judges by itself what the swarm's views say of other nodes; nil: they are taken at their word.
	Trust *trust.Guard
	// Compare asks other SNs than the one in use for their view of a contract. If more show another one, or as many and tie is set, it
	// goes to one of those and returns the name of the SN that it has left. It blocks; nil: SNs are not compared.
	Compare func(ctx context.Context, contract string, same func(*round.View) bool, tie bool) string
	// Unreached tells which SLs of a contract this node can't open connections to, at most round.MaxUnreached. It must not block, nor call
	// the engine; nil: that is not known.
	Unreached func(contract string) []round.Unreached
	// Sign signs with the node key; nil: reports have neither signature nor number, and no swarm takes them.
	Sign func(msg []byte) ([]byte, error)
	// Timeouts are how long this node waits for other peers, with what else it asks of the swarm.
	Timeouts Timeouts
	// Heartbeat is the interval between reports when nothing changes. Default 1 s.
	Heartbeat time.Duration
	// RetryFetch is the pause after a failed fetch of the committed model. Default 500 ms.
	RetryFetch time.Duration
	// GiveUpFetch is how long a final model that no live node holds is waited for. Default 2 min.
	GiveUpFetch time.Duration
}

// Engine keeps the sessions of one node in step with their contracts: at most one that is not ended. It implements the
// bridge's handler. Safe for concurrent use.
type Engine struct {
	cfg      Config
	wake     chan struct{} // capacity 1: something changed, reconcile
	toReport chan struct{} // capacity 1: there is something to report
	runs     chan struct{} // closed when Run has begun

	mu       sync.Mutex      // guards what follows
	ctx      context.Context //nolint:containedctx // that of Run, for sessions that programs open while it lasts
	current  *session
	seen     bool          // a session was opened at least once
	viewed   chan struct{} // closed and replaced when a view was taken
	tasks    sync.WaitGroup
	reporter reporter
}

// New returns an engine that does nothing until Run.
func New(cfg Config) *Engine {
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = time.Second
	}
	if cfg.RetryFetch <= 0 {
		cfg.RetryFetch = 500 * time.Millisecond
	}
	if cfg.GiveUpFetch <= 0 {
		cfg.GiveUpFetch = 2 * time.Minute
	}
	e := &Engine{cfg: cfg, wake: make(chan struct{}, 1), toReport: make(chan struct{}, 1), runs: make(chan struct{}), viewed: make(chan struct{})}
	e.reporter.e, e.reporter.beat = e, make(chan struct{})
	return e
}

// Run reconciles and sends heartbeats until ctx ends; it leaves no goroutine behind and closes the slots. Program calls
// are refused before it runs and after it has returned. It may be called once.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	e.mu.Lock()
	e.ctx = ctx
	if e.current != nil {
		e.current.goOnLocked(ctx)
	}
	e.mu.Unlock()
	close(e.runs)
	defer e.stop(cancel)
	e.tasks.Go(func() { e.reporter.heartbeats(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake:
			e.mu.Lock()
			if s := e.current; s != nil {
				s.reconcileLocked()
			}
			e.mu.Unlock()
		}
	}
}

// Running is closed once Run takes calls of programs.
func (e *Engine) Running() <-chan struct{} { return e.runs }

func (e *Engine) stop(cancel context.CancelFunc) {
	cancel()
	e.mu.Lock()
	s := e.current
	e.ctx = nil
	e.mu.Unlock()
	e.tasks.Wait()
	if s != nil {
		e.mu.Lock()
		s.terminateLocked(&Error{"DAEMON_STOPPED", "the daemon is shutting down", "start the node again"})
		s.model.copies.keepLast()
		s.model.closeSlots()
		e.mu.Unlock()
	}
}

// poke asks for a reconciliation and a report, both as soon as possible.
func (e *Engine) poke() {
	signal(e.wake)
	signal(e.toReport)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Error is a refusal or an end of a session with what a program needs: a stable reason, one line, and a remedy.
type Error struct {
	Code    string `json:"reason"` // UPPER_SNAKE
	Message string `json:"message"`
	Help    string `json:"remedy,omitempty"` // one line; may be empty
}

func (e *Error) Error() string { return e.Message }

// Reason is what programs decide on.
func (e *Error) Reason() string { return e.Code }

// Remedy is what the user can do about it.
func (e *Error) Remedy() string { return e.Help }

// reasoned turns any error into one that the bridge can show.
func reasoned(err error, code string) error {
	var r interface {
		Reason() string
		Remedy() string
	}
	if errors.As(err, &r) {
		return err
	}
	return &Error{Code: code, Message: err.Error()}
}
