package work

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/policy"
)

// Label says whose something on a host is. Executors put it on all that they make.
type Label struct {
	Swarm, Node string // the swarm's ID, and the host's name in it
	Assignment  string // ID
	Epoch       uint32
	Member      uint32 // index
}

// Part names the member to what is started for it.
func (l Label) Part() task.Part {
	return task.Part{Host: l.Node, Assignment: l.Assignment, Epoch: l.Epoch, Member: l.Member}
}

// Job is a member that is to be carried out.
type Job struct {
	Label

	Group      string // of the assignment
	Peers      uint32 // that it counts for
	Assignment task.Request
	Task       *task.Task // its digest is that of the assignment, and its own
	// Image is the one that the host's owner consented to, and the only one that may be run or fetched; nil: the task has none.
	Image *policy.Image
	Grant Grant // what the host's owner gives it
	// World is where all members of the epoch are, by index, if the type of the task has it: at what their hosts have signed. Of those that have
	// addresses of their own it has these when they are started, and not before.
	World []task.Site
	// Told is the address of its own that the host has told of the member before it was restarted, and the only one that it may have; empty: none.
	Told string
}

// Grant is what of the host its owner gives to an assignment. What is not in it no executor takes of the host.
type Grant struct {
	// Paths of the host, by what the task names them: where each led, without symbolic links, when it was judged.
	Paths map[string]string
	// Volumes are those of the task's that the owner has named one by one.
	Volumes []string
	// Folders are those of the host that the task asks for by the names that the owner has for them: where each is.
	Folders map[string]string
}

// Status is what has become of a member.
type Status struct {
	State task.State // Prepared, Started, Ready or Exited
	Code  int32      // exit code
	Text  string     // one line; the host bounds it
	Asks  string     // task.AskStop or task.AskFail: there is such a file in the folder of its run; empty: nothing
	Said  string     // the last lines of what its program printed, see LastLines: they may be data, and go where the host's owner lets logs go
}

// Found is a member of which something is on the host.
type Found struct {
	Label
	Status
}

// Executor carries out tasks of one type. Its methods may be called for several members at a time, for one member one at a time. They
// end soon when ctx does. Find is called beside the others.
type Executor interface {
	// Prepare does what can be done before other members are ready to start. It is called again for one that was prepared, in full or in
	// part, if the host was restarted, and if it failed with a [Passing]. Another error, in one line with its remedy, ends the member.
	Prepare(ctx context.Context, j Job) error
	// Start starts a member that was prepared and returns what has become of it. Work that ends by itself and leaves no program behind may
	// be done here, and returns Exited. It is called again if it failed with a [Passing], and makes nothing twice. Another error ends the member.
	Start(ctx context.Context, j Job) (Status, error)
	// Find returns the members of which something is on the host, of this swarm and node. What is not whole is Prepared.
	Find(ctx context.Context) ([]Found, error)
	// Clean ends and removes all that there is of a member. It returns nil only when nothing is left, also if nothing was there, or then a [Parting].
	Clean(ctx context.Context, l Label) error
}

// Type is how tasks of one type are carried out.
type Type struct {
	Executor Executor
	// Limit bounds Prepare, and Start where that does all of the work; 0: nothing does.
	Limit time.Duration
	// Refuses is why the host carries out none of them, in one line with its remedy. It has no Executor then.
	Refuses string
	// Repeats says that Start does all of the work, which may be done again from its beginning after the host was restarted.
	Repeats bool
	// World says that members are prepared only when it is known where all of their epoch are.
	World bool
	// Address returns the address of its own that a member has which was prepared, an IP in a network that hosts share; empty: it has none, and needs
	// none of others to start. Nil: no member of the type has one.
	Address func(ctx context.Context, l Label) (string, error)
	// CleanLimit bounds one try to clean up, where members have long to end; 0: two minutes.
	CleanLimit time.Duration
	// Lease is told until when members may run, by the last answer of a leader, for those that end by themselves when that is over; nil: nobody is.
	Lease func(until time.Time) error
	// Saw is told what each look of the host found, members of this host or why it was in vain; it does not block. Nil: nobody is told.
	Saw func(found []Found, err error)
	// Image finds the image that a task runs or fetches, before anybody decides on it: nothing is fetched and nothing made. It returns nil for
	// a task that has none; an error, in one line with its remedy, is why the task can't be carried out, unless it is a [Passing]. Of a [Passing]
	// and a [Lasting] the swarm gets to know their words alone. Nil: no task of the type has an image.
	Image func(ctx context.Context, t *task.Task) (*policy.Image, error)
}

// Passing is an error that passes: what it is about is to be tried again, for a while.
type Passing struct {
	Words string // one line with its remedy, for the swarm: an engine's own words may tell of the host
	Err   error  // for the host's log
	// Refuses has the host refuse a member of which nothing was prepared, when it has not passed: nothing of the member has failed there.
	Refuses bool
}

// Error implements error.
func (p *Passing) Error() string { return p.Err.Error() }

// Unwrap returns what happened.
func (p *Passing) Unwrap() error { return p.Err }

// Lasting is an error that does not pass before somebody corrects something. What the swarm gets to know of it is as in Passing.
type Lasting Passing

// Error implements error.
func (l *Lasting) Error() string { return l.Err.Error() }

// Unwrap returns what happened.
func (l *Lasting) Unwrap() error { return l.Err }

// Partial is an error of what was done but for a part.
type Partial struct{ Words string } // which part, without what the swarm is not to know of this host

// Error implements error.
func (p *Partial) Error() string { return p.Words }

// EngineFails is the error of an engine that gives no answer, or none to the question: a Passing, or a Lasting if it can't be reached at all.
func EngineFails(err error) error {
	if why := Lasts(err); why != "" {
		return &Lasting{Words: "this host can't use its container engine, as " + why + ": correct it as its SWOP's log says, and assign the task again", Err: err}
	}
	return &Passing{Words: "this host's container engine does not say: see its SWOP's log, and whether the engine answers (docker info)", Err: err}
}

// OfEngine is the error of calls to the engine. It is one of EngineFails if the engine could not be reached, or went away meanwhile: another try
// is worth while. One that says already that it lasts stays as it is.
func OfEngine(err error) error {
	if _, lasts := errors.AsType[*Lasting](err); !lasts && engine.OutOfReach(err) {
		return EngineFails(err)
	}
	return err
}

// Parting is what Clean says of a member of which nothing is left, where there is something to say that was not known before.
type Parting struct {
	Code int32  // not 0: something is lost
	Text string // one line, for the swarm
	Said string // as in Status
}

// Error implements error.
func (p *Parting) Error() string { return p.Text }

// PartingOf takes apart what Clean returns: an error is that something is left.
func PartingOf(err error) (*Parting, error) {
	if p, is := errors.AsType[*Parting](err); is {
		return p, nil
	}
	return nil, err
}

// Swarm is what the swarm has shown of this host last.
type Swarm interface {
	// Hosted returns the assignments in which the host has members; known is false until there was an answer. It never goes back to what
	// was before, also for one that a restarted host sees first: what is missing in it is ended.
	Hosted() (all []task.Hosted, known bool)
	// Changed returns a channel that is closed at the next change of Hosted.
	Changed() <-chan struct{}
}

// Tasks are the swarm's tasks.
type Tasks interface {
	// Task returns a task by name.
	Task(ctx context.Context, name string) (*task.Task, error)
}

// Guard speaks for the host's owner.
type Guard interface {
	// Consent says whether an assignment may be carried out here. It is asked before anything is prepared, and again while the answer is
	// NotYet.
	Consent(ctx context.Context, h task.Hosted, t *task.Task) Answer
	// Stays says whether what runs of an assignment, which a restarted host has found, may go on. It goes on while the answer is NotYet, and is
	// asked about again.
	Stays(ctx context.Context, h task.Hosted, t *task.Task) Answer
	// Tells reports whether what a program of an assignment printed may be told to the swarm, which is to be judged by who has asked for it.
	Tells(assignment string) bool
	Ends
	// Until returns when an epoch of an assignment that was begun is to be ended, which a restart does not put off, and why; zero: never.
	Until(assignment string, epoch uint32) (at time.Time, why string)
}

// Ends are what the host keeps of what it has told and ended, across restarts.
type Ends interface {
	// Ended says that nothing is left of an epoch of an assignment, and what became of it. It is called until it succeeds, and perhaps
	// again after a restart.
	Ended(assignment string, epoch uint32, words string) error
	// PartEnded says that nothing is left of a member, of an epoch of which the host has others. It is called as Ended is.
	PartEnded(p task.Part) error
	// HasEnded reports whether the host was a member before of which it has said that it ended, or that its epoch did: nobody does a part twice.
	HasEnded(p task.Part) bool
	// AddressOnce keeps the address of its own that a member has, and returns the first one that was kept of it: no other one may be told. With no
	// address it only returns that. Empty: none is kept, as the host has not begun the member's part, or has ended it. An error is that nothing can be
	// kept now.
	AddressOnce(p task.Part, ip string) (kept string, err error)
}

// Answer is a guard's.
type Answer struct {
	May May
	Why string // one line: who is asked, or why it is refused
	// Image and Grant go into the job, with Yes.
	Image *policy.Image
	Grant Grant
	// Since is when the host has received the assignment, across restarts: its time-out runs from then. Zero: now.
	Since time.Time
}

// May is what a guard allows.
type May int

// What a guard may say. Without a word it is no.
const (
	No May = iota
	NotYet
	Yes
)

// Times of the host.
const (
	tick       = time.Second      // the longest time between two looks at what is to be done
	look       = 2 * time.Second  // between two looks at what there is, while something is
	lookIdle   = 30 * time.Second // while there is nothing
	lookLimit  = 30 * time.Second // of one look
	blindLimit = 5 * time.Minute  // after which a member that can't be seen counts as gone
	fetchPause = 2 * time.Second
	fetchLimit = 30 * time.Second // for all tries to fetch a task
	askPause   = 2 * time.Second  // between two questions to the guard
	vainPause  = 2 * time.Second  // between two tries to prepare or start a member, of which one failed of what passes
	vainLimit  = 2 * time.Minute  // for all such tries in a row
	longLimit  = 5                // of a member's tries that took longer than that before they failed of what passes
	staysPause = 30 * time.Second // between two questions about what runs, which nobody sees end while one is answered
	cleanLimit = 2 * time.Minute  // of one try to clean, unless its type has another
	cleanPause = time.Second      // after the first try that failed; it doubles
	maxPause   = 30 * time.Second
	lease      = task.LeaseMS * time.Millisecond
)

// Printer is an executor that can show what its members print.
type Printer interface {
	// Print hands the last lines of what each program of a member has printed to emit, by the name of the SL or of whatever printed them, and
	// with follow those that come then, until all of them have ended or ctx does. emit may be called by several goroutines at a time, and
	// ends it with an error. It returns nil also if there is nothing.
	Print(ctx context.Context, l Label, tail int, follow bool, emit func(from, line string) error) error
}

// Reacher is an executor that can connect to ports of what its members run.
type Reacher interface {
	// Connect connects to a port at which a program of a member listens, and to none of anybody else's. It takes a few seconds at most. An error
	// is one line with a remedy.
	Connect(ctx context.Context, l Label, port uint16) (*net.TCPConn, error)
}
