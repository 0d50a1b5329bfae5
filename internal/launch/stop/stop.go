package stop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/text"
)

// Defaults of Config.
const (
	defaultGrace = 30 * time.Second // of a process; a container has its own
	killWithin   = 5 * time.Second  // in which the kernel ends a process that was killed
	parallel     = 16               // components stopped at a time
)

// outcomeKilled is said of what did not end by itself.
const outcomeKilled = "killed (it did not stop in time)"

// Config says what to stop.
type Config struct {
	Options Options
	Scope   string
	Engine  *engine.Engine // nil: there is none, processes only
	// Grace is how long a component has to end by itself; 0: what its container says, 30 s for a process.
	Grace time.Duration
	Out   io.Writer // a line for each component as it goes
}

// Run stops what is selected and removes what is left of it. It blocks until all is done, and goes on when one part fails; the
// error then names what did not stop or could not be removed. Nothing there to stop is no error.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Scope == "" {
		return errors.New("stop: no scope is given")
	}
	r := &runner{cfg: cfg}
	if !cfg.Options.Everything() && cfg.Options.selected() == "" { // --apls alone
		r.say("No license server is needed, so none runs")
		return nil
	}
	entries, err := registry.List(cfg.Scope)
	if err != nil {
		r.fail("processes", err)
	}
	for _, role := range order() {
		items := r.processes(entries, role)
		if role == naming.RoleSL {
			// The daemons end their programs themselves; what they leave behind comes after them.
			r.all(ctx, append(items, r.containers(ctx, role)...))
			items = r.containers(ctx, engine.RoleML, engine.RoleProbe)
		} else {
			items = append(items, r.containers(ctx, role)...)
		}
		r.all(ctx, items)
		if role == naming.RoleSWOP { // which ends members of jobs itself, unless it was killed
			r.all(ctx, append(r.processes(entries, engine.RoleMember), r.containers(ctx, engine.RoleMember)...))
		}
	}
	if cfg.Options.Everything() {
		r.all(ctx, r.containers(ctx)) // of roles that this release does not know
	}
	if !cfg.Options.Keep {
		r.all(ctx, r.volumes(ctx))
		r.all(ctx, r.networks(ctx))
	}
	return r.end(ctx)
}

// item is one thing to do.
type item struct {
	verb string // "Stopping"
	what string // "SL hospital-a (container 3f2a7c0d1b44)"
	do   func(ctx context.Context) (outcome string, err error)
}

// runner is one call of Run. Its methods may run at the same time.
type runner struct {
	cfg Config

	mu     sync.Mutex
	found  int
	failed []string
	errs   []error
}

// all does the items at the same time, and says how each ended.
func (r *runner) all(ctx context.Context, items []item) {
	slices.SortStableFunc(items, func(a, b item) int { return strings.Compare(a.what, b.what) })
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, it := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			outcome, err := it.do(ctx)
			r.mu.Lock()
			r.found++
			r.mu.Unlock()
			if err != nil {
				r.say("%s %s … failed: %v", it.verb, it.what, err)
				r.fail(it.what, err)
				return
			}
			r.say("%s %s … %s", it.verb, it.what, outcome)
		})
	}
	wg.Wait()
}

// say writes a line. Labels and entries are what others made them: a terminal must not obey them.
func (r *runner) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.cfg.Out, text.Line(fmt.Sprintf(format, args...)))
}

func (r *runner) fail(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, what)
	r.errs = append(r.errs, fmt.Errorf("%s: %w", what, err))
}

func (r *runner) end(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(r.failed) > 0:
		slices.Sort(r.failed)
		return &Error{What: r.failed, Err: errors.Join(r.errs...)}
	case r.found > 0:
	case r.cfg.Options.Everything():
		r.say("No running components found")
	default:
		r.say("No running %s found", r.cfg.Options.selected())
	}
	return nil
}

// Error names what did not stop, or is not gone.
type Error struct {
	What []string
	Err  error // why, joined; the lines have said it
}

func (e *Error) Error() string { return "not stopped or not removed: " + strings.Join(e.What, ", ") }

func (e *Error) Unwrap() error { return e.Err }

// named is a component in words: its role and, if it has one, its name.
func named(role, name string) string { return strings.TrimSpace(title(role) + " " + name) }
