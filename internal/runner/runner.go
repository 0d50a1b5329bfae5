// Package runner runs an SL's program: it starts the program as a process or in a container, watches it, says what its end means, adopts a
// container that an earlier run of the daemon has left, and ends the sessions whose programs are gone.
package runner

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/ranks"
	"github.com/swarmd/swarmd/internal/rendezvous"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/internal/text"
)

// Spec is the program.
type Spec struct {
	DataDir   string
	ModelDir  string // as this process sees it; ML may name it otherwise
	Program   string
	Args      []string // of Program
	Platform  string   // "PYT" or "TF"
	Python    string   // interpreter; empty: found
	Env       []string
	Client    string // launch.ClientAuto (or empty), ClientOwn or ClientOriginal
	Attach    bool   // run no program; one is started by hand
	Contained bool   // the daemon is in a container: a program that is started by hand does not see its files
	BridgeDir string
	Linger    time.Duration
	// Ranks are what the program is the first of; nil: it is one by itself.
	Ranks *ranks.Ranks
	// SessionTimeout stops a program that has opened no session by then; 0: never.
	SessionTimeout time.Duration
	Stdout         io.Writer // the program's lines
	Getenv         func(string) string

	// ML is the container that the program runs in; nil: it runs as a process. What is empty in it of Node, Platform, Program, Args,
	// DataDir, ModelDir, BridgeDir, Spill and LogFile is taken from this specification; Incarnation, Line, Grace and Log are the
	// runner's. Its paths are the engine's, which resolves them on the host.
	ML *container.Spec
	// SpillDir is where this process sees the directory or volume that ML.Spill names, for weight files that the bridge
	// directory has no room for; empty: a directory in StateDir.
	SpillDir string
}

// Config is what a Runner needs.
type Config struct {
	Spec
	Node     string // its name
	StateDir string // of the node, which holds its lock when Resume is called
	Log      *slog.Logger
	// Containers opens what containers run in; nil: Docker's or Podman's engine. The runner closes it.
	Containers func(ctx context.Context, log *slog.Logger) (Containers, error)
	// Start starts the program where it runs as a process, and stops it when ctx ends; nil: a Python interpreter that is found runs it.
	Start func(ctx context.Context) (Running, error)
}

// Running is an ML program that was started, or adopted.
type Running interface {
	ID() string // for logs
	// Done is closed when it has ended, Wait blocks until then and tells how.
	Done() <-chan struct{}
	Wait() launch.Exit
	Stop(grace time.Duration)
}

// Containers are what an SL's program runs in, which outlive the daemon. container.Launcher has the methods' documentation.
type Containers interface {
	Client(ctx context.Context, spec container.Spec) (string, error)
	Find(ctx context.Context, node, scope string) ([]container.Found, error)
	Start(ctx context.Context, spec container.Spec) (Running, error)
	Adopt(ctx context.Context, f container.Found, spec container.Spec) (Running, error)
	Remove(ctx context.Context, f container.Found) error
	io.Closer
}

// Swarm is what a runner asks of the swarm's API. *client.Client fulfils it.
type Swarm interface {
	ListContracts(ctx context.Context) (*swarmv1.ListContractsResponse, error)
	GetContractStatus(ctx context.Context, contract string) (*swarmv1.GetContractStatusResponse, error)
	EndSession(ctx context.Context, req *swarmv1.EndSessionRequest) error
}

// Bridge is the program's way to its node: OpenBridge's in production. *bridge.Server has the methods' documentation.
type Bridge interface {
	Claim(keep bool) error
	Resume(session, layout string, weight, maxWeight int)
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	Release()
	Slots
}

// Slots makes and finds the weight files of sessions.
type Slots interface {
	CreateSlots(bytes int64) (models.Slots, error)
	OpenSlots(bytes int64, local, committed string) (models.Slots, error)
}

// runtime starts an SL's program.
type runtime interface {
	name() string      // "process" or "docker"
	isolation() string // what keeps the program in, for the other peers
	// start starts the program with these variables beside its own, as a rank that begins at a meeting if there is one, or adopts the one that Resume
	// has found. When ctx ends it is stopped.
	start(ctx context.Context, env []string, meets *rendezvous.Meeting) (Running, error)
}

// Runner runs the program of one SL.
type Runner struct {
	cfg        Config
	how        runtime     // nil: the program is started by hand
	containers *containers // nil: the program does not run in one
	process    *process    // nil: the program is no child of this daemon
	swarm      ranks.Swarm // nil: the program is no rank
}

// New checks everything about the program that can be checked before anything is started. The caller closes the runner.
func New(ctx context.Context, cfg Config) (*Runner, error) {
	r := &Runner{cfg: cfg}
	switch {
	case cfg.Attach:
	case cfg.ML != nil:
		c, err := prepareContainer(ctx, cfg)
		if err != nil {
			return nil, err
		}
		r.how, r.containers = c, c
		if r.cfg.Program == "" { // the image's, or a command
			r.cfg.Program = c.spec.Image
		}
	default:
		p, err := prepareProcess(ctx, cfg)
		if err != nil {
			return nil, err
		}
		r.how, r.process = p, p
	}
	return r, nil
}

// Close lets go of the container engine. The program is left as it is.
func (r *Runner) Close() {
	if r.containers != nil {
		r.containers.close()
	}
}

// Runtime is how the program runs: "process" or "docker".
func (r *Runner) Runtime() string {
	if r.how == nil {
		return "process"
	}
	return r.how.name()
}

// Isolation says what keeps the program in, for the other peers.
func (r *Runner) Isolation() string {
	if r.how == nil {
		return noIsolation
	}
	return r.how.isolation()
}

// Journal opens the record by which the next run of the daemon resumes the program's session; nil: the program dies with the daemon.
func (r *Runner) Journal() *session.Journal {
	if r.containers == nil {
		return nil
	}
	r.containers.journal = session.OpenJournal(r.containers.journalPath(), r.cfg.Log)
	return r.containers.journal
}

// Owner is the user that the program runs as, and spillAs the path by which it knows the directory of spilled weight files; nil and empty:
// the daemon's own, in no container.
func (r *Runner) Owner() (owner *bridge.Owner, spillAs string) {
	if r.containers == nil {
		return nil, ""
	}
	return r.containers.owner(), spillInside
}

// line shows a line of the program, which a terminal must not obey.
func (c Config) line(_, line string) { fmt.Fprintf(c.Stdout, "program | %s\n", text.Plain(line)) }
